"""`rankbeam`: argv → plan → job → what is printed. stdout holds only the result; everything else goes to stderr.

Imports stand inside the commands: `--help` needs none of them, and Beam alone takes most of a second.
"""

import argparse
import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, NoReturn

from .arguments import parse, split
from .errors import RankbeamError
from .inert import plain
from .interrupts import Interrupted, Interrupts, interrupts
from .redact import redact

if TYPE_CHECKING:
    from .plan import Plan

_REPORT = "this is a fault in rankbeam: please report it, with what the same command says under --debug"


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit code (DESIGN §5)."""
    argv = sys.argv[1:] if argv is None else argv
    debug = bool(os.environ.get("RANKBEAM_DEBUG")) or "--debug" in split(argv)[0]
    with interrupts() as received:
        try:
            return _dispatch(argv, debug, received)
        except SystemExit as leaving:  # argparse, after --help
            return leaving.code if isinstance(leaving.code, int) else 0
        except (Exception, Interrupted) as error:  # noqa: BLE001  the last one up: every failure becomes one line
            return _explain(error, debug, received)


def command() -> NoReturn:
    """`rankbeam` as a process. When the result is out nothing is left to do but to unload Beam, which takes Python a
    quarter of a second; so it is not asked to."""
    code = main()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def run_and_show(plan: "Plan", beam_args: list[str], debug: bool) -> int:
    """Run the job, and print the attempt it committed (not whatever CURRENT says by then)."""
    from .runners import keep_freed_memory, set_up_logging

    set_up_logging(debug)
    # What a run keeps, it keeps for good, and its blocks hold no cycles: looking for garbage as often as Python does
    # by itself costs a tenth of a run.
    gc.set_threshold(200_000, 20, 100)
    keep_freed_memory()
    from transforms.ledger import PROGRESS

    from . import job
    from .committed import Run
    from .progress import Progress
    from .show import render, run_tables
    from .workers import lost_workers_end_the_run

    with lost_workers_end_the_run(), Progress(PROGRESS.snapshot) as progress:
        outcome = job.run(plan, beam_args, progress)
    run = Run(outcome.path, plan.run_date, outcome.attempt, outcome.manifest)
    return write_out(render(run_tables(run, outcome.engine), "table"))


def write_out(text: str) -> int:
    """Print a result. A reader that had enough (`| head`) is no failure."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks ± must not cost the result
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _dispatch(argv: list[str], debug: bool, received: Interrupts) -> int:
    flags, beam_args = parse(argv)
    if flags.version:
        return write_out(f"rankbeam {_version()}\n")
    code = _COMMANDS[flags.command](flags, beam_args, debug)
    if received.exit_code is not None:
        raise Interrupted  # somebody on the way swallowed it
    return code


def _explain(error: BaseException, debug: bool, received: Interrupts) -> int:
    """Say in one line what went wrong, and give the exit code for it."""
    from .runners import failure_of, last_words

    if debug:
        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    if received.exit_code is not None:
        return _complain(received.words, received.exit_code)
    meant = failure_of(error)
    if meant is not None:
        return _complain(str(meant), meant.exit_code)
    return _complain(f"{last_words(error)[:1000]}; {_REPORT}", RankbeamError.exit_code)


def _complain(message: str, exit_code: int) -> int:
    """One line on stderr, with no secret in it and nothing that a terminal would obey."""
    print(f"rankbeam: {plain(redact(' '.join(message.split())))}", file=sys.stderr)
    return exit_code


def _run(flags: argparse.Namespace, beam_args: list[str], debug: bool) -> int:
    from .plan import load_plan, make_plan

    plan = make_plan(vars(flags), load_plan(flags.plan) if flags.plan else {})
    return run_and_show(plan, beam_args, debug)


def _show(flags: argparse.Namespace, beam_args: list[str], debug: bool) -> int:
    from .show import check_format, render, run_tables

    check_format(flags.format)
    from .committed import open_run

    return write_out(render(run_tables(open_run(flags.out, flags.run_date)), flags.format))


def _metrics(flags: argparse.Namespace, beam_args: list[str], debug: bool) -> int:
    from .describe import describe_metrics

    return write_out(describe_metrics(flags.format))


def _validate(flags: argparse.Namespace, beam_args: list[str], debug: bool) -> int:
    from .plan import load_plan, make_plan

    plan = make_plan(vars(flags), load_plan(flags.plan) if flags.plan else {}, require=("samples", "outputs"))
    from .runners import set_up_logging

    set_up_logging(debug)
    from .validate import validate

    gc.set_threshold(200_000, 20, 100)  # as for a run
    report = validate(plan)
    write_out("".join(f"{plain(line)}\n" for line in report.lines()))
    return report.exit_code


def _demo(flags: argparse.Namespace, beam_args: list[str], debug: bool) -> int:
    from .demo import demo_plan, write_demo

    write_demo(flags.folder)
    return run_and_show(demo_plan(flags.folder), beam_args, debug)


_COMMANDS: dict[str, Callable[[argparse.Namespace, list[str], bool], int]] = {
    "run": _run,
    "show": _show,
    "metrics": _metrics,
    "validate": _validate,
    "demo": _demo,
}


def _version() -> str:
    try:
        return metadata.version("rankbeam")
    except metadata.PackageNotFoundError:
        return "(not installed)"
