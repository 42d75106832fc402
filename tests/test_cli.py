import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from pipeline import cli
from pipeline.errors import ContractError
from pipeline.plan import Plan
from pipeline.progress import Progress, line
from pipeline.runners import pipeline_options
from transforms.metrics.catalog import CATALOG

RUN = ["run", "--samples", "s.jsonl", "--outputs", "o.jsonl", "--out", "runs"]
ROOT = Path(__file__).resolve().parent.parent

Asked = list[tuple[Plan, list[str]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the job would have been asked to do."""
    calls: Asked = []

    def note(plan: Plan, beam_args: list[str], debug: bool) -> int:
        calls.append((plan, beam_args))
        return 0

    monkeypatch.setattr(cli, "run_and_show", note)
    return calls


def job_that(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    def run_and_show(plan: Plan, beam_args: list[str], debug: bool) -> int:
        act()
        return 0

    monkeypatch.setattr(cli, "run_and_show", run_and_show)


def raiser(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_flags_reach_the_plan_and_the_rest_reaches_beam(asked: Asked) -> None:
    argv = [*RUN, "--samples=s2.jsonl", "--k", "3", "--replace", "--slice-by", "lang,tags"]
    argv += ["--", "--runner=FlinkRunner", "--", "x"]
    assert cli.main(argv) == 0
    [(plan, beam_args)] = asked
    assert plan.samples == ("s.jsonl", "s2.jsonl")
    assert (plan.k, plan.replace, plan.slice_by) == (3, True, ("lang", "tags"))
    assert beam_args == ["--runner=FlinkRunner", "--", "x"]


def test_flags_beat_the_plan_file(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("k = 9\nreplace = true\nmissing = 'skip'\n")
    assert cli.main([*RUN, "--plan", str(tmp_path / "plan.toml"), "--missing", "fail"]) == 0
    plan = asked[0][0]
    assert (plan.k, plan.replace, plan.missing) == (9, True, "fail")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no command"),
        (["rnu"], "unknown command 'rnu'; did you mean run?"),
        (["frobnicate"], "known: run, show, metrics, validate, demo"),
        ([*RUN, "--metric", "mrr"], "unknown flag --metric; did you mean --metrics?"),
        ([*RUN, "--slice_by", "lang"], "unknown flag --slice_by; did you mean --slice-by?"),
        ([*RUN, "--max", "1"], "unknown flag --max"),
        ([*RUN, "--runner=FlinkRunner"], "unknown flag --runner; flags for Beam go after a bare --"),
        ([*RUN, "--zzz=https://u:pw@h"], "unknown flag --zzz; flags for Beam"),
        ([*RUN, "more.jsonl"], "unexpected 'more.jsonl'; quote a pattern"),
        ([*RUN, "--metrics", "recal@5"], "did you mean 'recall'"),
        ([*RUN, "--metrics", "recall@0"], "metric 'recall@0'"),
        ([*RUN, "--k", "0"], "--k '0': expected a whole number above 0"),
        ([*RUN, "--k"], "--k: expected one argument"),
        ([*RUN, "--dialect", "trek"], "did you mean 'trec'?"),
        ([*RUN, "--run-date", "2026-02-30"], "--run-date '2026-02-30': not a date"),
        ([*RUN, "--missing", "zeros"], "did you mean zero?"),
        (["run", "--outputs", "o", "--out", "r"], "--samples is needed"),
        (["show"], "required: FOLDER"),
        (["show", "x", "--format", "yml"], "--format: unknown 'yml'"),
        (["show", "x", "--", "--runner=x"], "show starts no Beam job"),
        (["metrics", "--format", "tabel"], "did you mean table?"),
        (["validate", "--samples", "s"], "--outputs is needed"),
        ([*RUN, "--plan", "/no/such/plan.toml"], "/no/such/plan.toml: the plan cannot be read"),
    ],
)
def test_a_wrong_command_is_exit_2_and_one_line_on_stderr(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str], asked: Asked
) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and asked == []
    assert err.startswith("rankbeam: ") and err.count("\n") == 1
    assert message in err and "pw" not in err


def test_an_error_of_ours_ends_with_its_code_its_line_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job_that(
        monkeypatch, raiser(ContractError("s3://k:secret@b/x:\n0 of 3 joined \x1b[31m [while running 'JoinById']"))
    )
    assert cli.main(RUN) == 3
    assert capsys.readouterr().err == "rankbeam: s3://***@b/x: 0 of 3 joined \\x1b[31m\n"


def test_a_fault_is_exit_1_with_one_line_and_a_traceback_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RANKBEAM_DEBUG", raising=False)
    job_that(monkeypatch, raiser(KeyError("q-1")))
    assert cli.main(RUN) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "KeyError: 'q-1'" in err and "report" in err
    assert cli.main([*RUN, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert cli.main(["--debug", *RUN]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("RANKBEAM_DEBUG", "1")
    assert cli.main(RUN) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_full_disk_is_exit_1_and_names_the_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job_that(monkeypatch, raiser(OSError(28, "No space left on device", "runs/x")))
    assert cli.main(RUN) == 1
    assert capsys.readouterr().err == "rankbeam: runs/x: No space left on device\n"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_with_its_code(
    signum: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signum)

    def act() -> None:
        os.kill(os.getpid(), signum)
        time.sleep(30)

    job_that(monkeypatch, act)
    assert cli.main(RUN) == code
    assert capsys.readouterr().err == "rankbeam: stopped\n"
    assert signal.getsignal(signum) == before


def test_a_signal_inside_a_step_is_not_taken_for_a_failure_of_the_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(_: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    def act() -> None:
        options, runner, _ = pipeline_options([])
        with beam.Pipeline(runner=runner, options=options) as root:
            root | beam.Create([1]) | beam.Map(step)

    job_that(monkeypatch, act)
    assert cli.main(RUN) == 143
    assert "rankbeam: stopped\n" in capsys.readouterr().err


def test_a_signal_that_somebody_swallowed_still_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        except BaseException:  # noqa: BLE001  as a careless library would
            pass

    job_that(monkeypatch, act)
    assert cli.main(RUN) == 130


def test_help_and_version_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rankbeam ")
    for argv in (["--help"], *([command, "--help"] for command in ("run", "show", "metrics", "validate", "demo"))):
        assert cli.main(argv) == 0
        assert "usage: rankbeam" in capsys.readouterr().out


@pytest.mark.parametrize("format", ["table", "md", "json"])
def test_metrics_prints_every_metric(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["metrics", "--format", format]) == 0
    out = capsys.readouterr().out
    for name, entry in CATALOG.items():
        assert name in out
        assert format != "table" or (entry.meaning in out and entry.formula in out)
    if format == "json":
        described = json.loads(out)
        assert [metric["name"] for metric in described] == list(CATALOG)
        keys = {"name", "meaning", "formula", "range", "undefined", "aliases", "dialects"}
        assert all(keys <= set(metric) and "standard" in metric["dialects"] for metric in described)


def test_help_metrics_and_show_start_without_beam() -> None:
    code = (
        "import sys; from pipeline.cli import main; main(['--help']); main(['metrics']); main(['show', '/nope']);"
        "sys.exit('apache_beam' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, pipeline; sys.exit(any(name in sys.modules for name in ('numpy', 'pyarrow', 'apache_beam')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    command = f"{sys.executable} -m pipeline metrics | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_a_terminal_cannot_encode_is_still_printed() -> None:
    code = "from pipeline.cli import write_out; write_out('± 0.1\\n')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.stdout == b"\\xb1 0.1\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_is_cleared_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.progress.INTERVAL_SECONDS", 0.01)
    stream = Terminal()
    with Progress(
        lambda: {"samples.read": 12000, "outputs.rejected.bad_json": 2, "samples.rejected.bad_id": 1}, stream
    ):
        time.sleep(0.1)
    text = stream.getvalue()
    assert "12,000 samples, 0 outputs read · 0 rows scored · 3 rejected · 0:00" in text
    assert text.endswith("\r\x1b[K") and "\n" not in text


def test_progress_is_quiet_when_stderr_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress(dict, stream):
        pass
    assert stream.getvalue() == ""


def test_progress_without_counts_shows_the_time_alone() -> None:
    assert line({}, 67.9) == "1:07"


def test_a_signal_at_the_moment_of_publishing_does_not_undo_the_run() -> None:
    import os
    import signal

    from pipeline.interrupts import Interrupted, interrupts, point_of_no_return

    with interrupts() as received:
        with point_of_no_return():
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received.exit_code is None
    with interrupts() as received, pytest.raises(Interrupted):
        with point_of_no_return():
            os.kill(os.getpid(), signal.SIGTERM)
            raise OSError("the swap failed")
    assert received.exit_code == 143
