import logging
import os
import shlex
import sys
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipeline import runners
from pipeline.errors import ContractError, RankbeamError, UsageError
from pipeline.runners import IN_PROCESS, failure_of, last_words, pipeline_options, set_up_logging


@pytest.fixture
def own_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def pythonpath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # restored, whatever is set in between


@pytest.mark.parametrize(
    "args", [[], ["--runner=DirectRunner"], ["--runner", "direct"], ["--runner=FnApiRunner"], ["--runner=directrunner"]]
)
def test_the_local_runner_is_always_the_in_process_engine(args: list[str]) -> None:
    _, runner, engine = pipeline_options(args)
    assert type(runner) is FnApiRunner
    assert engine == IN_PROCESS == "in-process (FnApiRunner)"


def test_multi_threading_is_refused_with_the_reason() -> None:
    for args in (["--direct_running_mode=multi_threading"], ["--direct_running_mode", "multi_threading"]):
        with pytest.raises(UsageError, match="loses rows"):
            pipeline_options(args)


def test_workers_without_processes_are_refused() -> None:
    with pytest.raises(UsageError, match="needs --direct_running_mode=multi_processing"):
        pipeline_options(["--direct_num_workers=2"])


def test_multi_processing_runs_steps_in_other_processes(pythonpath: None, tmp_path: object) -> None:
    options, runner, engine = pipeline_options(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
    assert engine == "local worker processes: 2 (FnApiRunner)"

    def note(number: int) -> int:
        import os

        from pipeline.errors import RankbeamError as _  # noqa: F401  a worker can import the job's own packages

        open(f"{tmp_path}/{os.getpid()}", "a").close()
        return number

    with beam.Pipeline(runner=runner, options=options) as root:
        root | beam.Create(range(40)) | beam.Reshuffle() | beam.Map(note)
    workers = {int(name) for name in os.listdir(str(tmp_path))}
    assert workers and os.getpid() not in workers


def test_multi_processing_from_a_path_with_blanks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/home/my files/python")
    assert shlex.quote(sys.executable) != sys.executable
    with pytest.raises(UsageError, match="holds blanks"):
        pipeline_options(["--direct_running_mode=multi_processing"])


def test_cluster_runners_pass_through_with_options_beam_does_not_know() -> None:
    options, runner, engine = pipeline_options(["--runner=PortableRunner", "--job_endpoint=embed", "--made_up=1"])
    assert (type(runner).__name__, engine) == ("PortableRunner", "PortableRunner")
    assert options.get_all_options(retain_unknown_options=True)["made_up"] == "1"
    assert pipeline_options(["--runner=FlinkRunner"])[2] == "FlinkRunner"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--runner=FlinkRuner"], "did you mean FlinkRunner?"),
        (["--runner=no.such.Runner"], "not available here"),
        (["--runner"], "expected one argument"),
        (["--direct_runing_mode=in_memory"], "did you mean --direct_running_mode?"),
        (["--direct_running_mode=sideways"], "invalid choice: 'sideways'"),
        (["stray"], "unexpected 'stray'"),
    ],
)
def test_a_wrong_flag_after_the_dashes_is_one_line(
    args: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        pipeline_options(args)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "usage:" not in capfd.readouterr().err


def test_a_step_s_error_keeps_its_kind_and_loses_the_step() -> None:
    def fail(_: int) -> int:
        raise ContractError("0 of 3 joined")

    options, runner, _ = pipeline_options([])
    with pytest.raises(ContractError) as caught:
        with beam.Pipeline(runner=runner, options=options) as root:
            root | beam.Create([1]) | beam.Map(fail)
    meant = failure_of(caught.value)
    assert type(meant) is ContractError
    assert str(meant) == "0 of 3 joined"


def test_an_error_of_another_process_is_found_in_its_text() -> None:
    text = "Traceback (most recent call last):\n  File x\npipeline.errors.UsageError: bad k [while running 'A/B']\n"
    meant = failure_of(RuntimeError(text))
    assert (type(meant), str(meant)) == (UsageError, "bad k")
    full = failure_of(RuntimeError("...\nOSError: [Errno 28] No space left on device: '/x' [while running 'W']\n"))
    assert (type(full), str(full)) == (RankbeamError, "[Errno 28] No space left on device: '/x'")


def test_a_fault_of_the_machine_is_not_called_one_of_rankbeam() -> None:
    assert str(failure_of(OSError(28, "No space left on device", "/x/part"))) == "/x/part: No space left on device"
    assert "out of memory" in str(failure_of(MemoryError()))
    assert failure_of(KeyError("a")) is None
    assert last_words(KeyError("a")) == "KeyError: 'a'"


def test_logs_go_to_stderr_without_noise_tracebacks_or_secrets(
    own_root_logger: None, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging(debug=False)
    logging.warning("apitools not found, and so on")
    logging.getLogger("apache_beam.runners.common").error("a step failed\nTraceback ...")
    logging.getLogger("apache_beam.io").info("chatter")
    logging.getLogger("apache_beam.io").warning("slow read of https://u:secret@host/x\nsecond line")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "rankbeam: apache_beam.io: slow read of https://***@host/x second line\n"


def test_runners_import_no_beam_by_themselves() -> None:
    assert "apache_beam" not in vars(runners)
