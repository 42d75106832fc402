"""Which engine runs the graph, and how little Beam says while it does.

Beam is imported inside the functions: `rankbeam --help`, `metrics` and `show` never pay for it.
"""

import contextlib
import ctypes
import io
import logging
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from transforms.limits import BrokenInput

from .arguments import Parser
from .errors import ContractError, RankbeamError, UsageError
from .nearest import nearest, suggestion
from .redact import redact

IN_PROCESS = "in-process (FnApiRunner)"

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

_RUNNERS = (
    *("DirectRunner", "FnApiRunner", "FlinkRunner", "DataflowRunner"),
    *("PortableRunner", "PrismRunner", "SparkRunner"),
)
# All of these mean the in-process engine. Beam's own DirectRunner is a switch that first tries to download another
# engine, so the same command would run on different engines on a laptop and behind a firewall.
_LOCAL = ("directrunner", "fnapirunner", "switchingdirectrunner", "bundlebaseddirectrunner")


def pipeline_options(beam_args: list[str]) -> tuple[Any, Any, str]:
    """(PipelineOptions, runner for `beam.Pipeline`, the engine's name to print) for the flags after `--`."""
    peek = Parser(prog="rankbeam run --", add_help=False)
    peek.add_argument("--runner", default="DirectRunner")
    peek.add_argument("--direct_running_mode", default="in_memory")
    peek.add_argument("--direct_num_workers", default="1")
    asked, _ = peek.parse_known_args(beam_args)
    if asked.direct_running_mode == "multi_threading":
        raise UsageError(
            "direct_running_mode=multi_threading: refused: Beam 2.77 loses rows in it and still reports success; "
            "use multi_processing, or leave it out"
        )
    name = _runner_name(asked.runner)
    if name.lower() in _LOCAL:
        return _local(beam_args, asked.direct_running_mode, asked.direct_num_workers)
    return _options(beam_args, keep_unknown=True), _create(name), name


def set_up_logging(debug: bool) -> None:
    """Log to stderr, warnings up, one line each. Call it before Beam's import: Beam warns while being imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    handler = _Stderr()
    handler.addFilter(_Quiet(debug))
    handler.setFormatter(_OneLine(debug))
    root = logging.getLogger()
    root.handlers[:] = [*(other for other in root.handlers if not isinstance(other, _Stderr)), handler]
    root.setLevel(logging.INFO if debug else logging.WARNING)


def keep_freed_memory() -> None:
    """Have the C library keep the pages of freed blocks for the next ones, where it can be told (glibc).

    By itself it gives every large block back at once, and the kernel then hands out the same pages again, zeroed: a
    tenth of a run's time on numpy and shuffle buffers that live for milliseconds.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most it takes
        mallopt(_M_TRIM_THRESHOLD, 512 << 20)


def failure_of(error: BaseException) -> RankbeamError | None:
    """The error a step meant to raise, from what the runner made of it; None when it meant none of ours.

    In this process Beam keeps the type and appends the step's name to the message; from another process only the
    text of a traceback arrives, and its last line holds type and message.
    """
    if isinstance(error, RankbeamError):
        return type(error)(_without_step(str(error)))
    if isinstance(error, BrokenInput):
        return ContractError(_without_step(str(error)))
    if isinstance(error, OSError):
        return RankbeamError(_without_step(_os_message(error)))
    if isinstance(error, MemoryError):
        return RankbeamError("out of memory; give it more, fewer --block-rows, or more --buckets")
    if isinstance(error, RuntimeError) and "Channel closed prematurely" in str(error):
        return RankbeamError("a worker process was lost; nothing was published")
    found = re.findall(r"(?m)^(?:[\w.]+\.)?(\w+): (.*)$", str(error)) if isinstance(error, RuntimeError) else []
    for name, message in reversed(found):
        if name in _KINDS:
            return _KINDS[name](_without_step(message))
    return None


def last_words(error: BaseException) -> str:
    """One line for an error nobody foresaw: its type and message, or the last such line of a worker's traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and isinstance(error, RuntimeError):
        return lines[-1]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the time, and is known again when set up twice in a process."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


class _Quiet(logging.Filter):
    """Drop what Beam says that is not news: a missing extra nobody asked for, and failures it also raises."""

    def __init__(self, debug: bool) -> None:
        super().__init__()
        self.debug = debug

    def filter(self, record: logging.LogRecord) -> bool:
        message = str(record.msg)
        if message.startswith(("apitools not found", "Discarding unparseable args", "Discarding flag")):
            return False
        # The first log, with a traceback, what reaches the command as an exception anyway; the others are remarks on
        # type hints while the graph is built: for whoever writes a step, not for whoever runs it.
        return self.debug or not (record.name.startswith(_ALSO_RAISED) or message.startswith(_ON_HINTS))


_ON_HINTS = ("This output type hint will be", "This input type hint will be", "TaggedOutput in return type")
_ALSO_RAISED = (
    "apache_beam.runners.common",
    "apache_beam.runners.worker",
    "apache_beam.runners.portability.local_job_service",
    "apache_beam.runners.portability.fn_api_runner",
)
# What an error is to the user, by the name that a traceback gives it.
_KINDS: dict[str, type[RankbeamError]] = {
    **{kind.__name__: kind for kind in (RankbeamError, UsageError, ContractError)},
    "BrokenInput": ContractError,
    "OSError": RankbeamError,
    **{kind.__name__: RankbeamError for kind in OSError.__subclasses__()},
}


class _OneLine(logging.Formatter):
    def __init__(self, debug: bool) -> None:
        super().__init__("rankbeam: %(name)s: %(message)s")
        self.debug = debug

    def format(self, record: logging.LogRecord) -> str:
        if self.debug:
            return redact(super().format(record))
        return redact(f"rankbeam: {record.name}: " + " ".join(record.getMessage().split()))


def _runner_name(asked: str) -> str:
    """Beam's spelling of a runner: it takes any case and leaves out the `Runner`; a dotted name is the user's own."""
    if "." in asked:
        return asked
    short = asked.lower() if asked.lower().endswith("runner") else asked.lower() + "runner"
    if short in _LOCAL:
        return short
    by_lower = {known.lower(): known for known in _RUNNERS}
    if short not in by_lower:
        raise UsageError(f"--runner {asked!r}: unknown{suggestion(asked, _RUNNERS)}")
    return by_lower[short]


def _local(beam_args: list[str], mode: str, workers: str) -> tuple[Any, Any, str]:
    engine = IN_PROCESS
    args = list(beam_args)
    if mode == "multi_processing":
        _let_workers_import_us()
        engine = f"local worker processes: {'one a core' if workers == '0' else workers} (FnApiRunner)"
        if not any(arg.startswith("--default_sdk_harness_log_level") for arg in args):
            args.append("--default_sdk_harness_log_level=ERROR")  # workers share our stderr
    elif workers != "1":
        raise UsageError(f"--direct_num_workers={workers}: needs --direct_running_mode=multi_processing")
    options = _remembering_views(_options(args, keep_unknown=False))

    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle

    # Without this, worker processes would start with no options at all (no log level, no file system settings).
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = fn_runner.ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded))
    return options, fn_runner.FnApiRunner(provision_info=provision), engine


def _let_workers_import_us() -> None:
    """Worker processes start as `<python> -m ...` through a shell, and find packages by PYTHONPATH."""
    if shlex.quote(sys.executable) != sys.executable:
        raise UsageError(
            f"direct_running_mode=multi_processing: Beam cannot start {sys.executable!r}, whose path holds blanks or "
            "quotes; use a virtual environment with a plain path"
        )
    root = str(Path(__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])


def _options(args: list[str], keep_unknown: bool) -> Any:
    """Beam's options. Its parser prints pages and exits by itself on a bad value; here that is one line.

    A cluster's job server knows options that Beam's Python side does not, so only the local engine refuses those.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(args)
            known = options.get_all_options()
            unknown = sorted(set(options.get_all_options(retain_unknown_options=True)) - set(known))
    except SystemExit:
        lines = complaint.getvalue().strip().splitlines() or ["unreadable"]
        raise UsageError(f"flags after --: {redact(lines[-1].split('error: ')[-1])}") from None
    if unknown and not keep_unknown:
        near = nearest(unknown[0], known)
        hint = f"; did you mean --{near}?" if near else ""
        raise UsageError(f"flags after --: Beam knows no --{unknown[0]}{hint}")
    if args and not args[0].startswith("-"):
        raise UsageError(f"flags after --: unexpected {redact(args[0])!r}")
    return options


def _remembering_views(options: Any) -> Any:
    """Options that make each of their views once.

    Beam asks for views at every transform and builds a new argument parser for each: half of the time that a small run
    takes to put its graph together. All views of one object share their values, so one of each kind is enough.
    """
    make = options.view_as
    views: dict[Any, Any] = {}

    def view_as(kind: Any) -> Any:
        if kind not in views:
            views[kind] = make(kind)
            object.__setattr__(views[kind], "view_as", view_as)
        return views[kind]

    object.__setattr__(options, "view_as", view_as)  # its own __setattr__ takes known flags only
    return options


def _create(name: str) -> Any:
    from apache_beam.runners.runner import create_runner

    try:
        return create_runner(name)
    except (ImportError, AttributeError, ValueError) as error:
        extra = "; install apache-beam[gcp]" if "dataflow" in name.lower() else ""
        raise UsageError(f"--runner {name!r}: not available here: {last_words(error)}{extra}") from None


def _without_step(message: str) -> str:
    return re.sub(r"(?: \[while running '[^']*'\])+\s*$", "", message)


def _os_message(error: OSError) -> str:
    if error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
