"""One run, from plan to committed attempt: look at the inputs, begin, run the graph, check the ledger, finish."""

import logging
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import apache_beam as beam

from transforms.ledger import PROGRESS, SIDES, build_ledger, imbalances

from . import commit
from .errors import ContractError
from .graph import build
from .inert import plain
from .inputs import Inputs, find_inputs
from .plan import Plan
from .redact import redact
from .runners import pipeline_options
from .verdict import objections

_PARTS = ("rankbeam", "apache-beam", "pyarrow", "numpy", "msgspec", "fastavro")


@dataclass(frozen=True)
class RunOutcome:
    """Where a committed run lies, and what ran it."""

    attempt: str
    path: str
    manifest: dict[str, Any]
    engine: str


def run(plan: Plan, beam_args: list[str], progress: object = None) -> RunOutcome:
    """Run a plan to its commit. Any error leaves earlier runs as they were and nothing new to see."""
    options, runner, engine = pipeline_options(beam_args)
    inputs = find_inputs(plan)
    _note_unread(inputs)
    attempt = commit.begin(plan.out, plan.run_date, plan.replace)
    PROGRESS.clear()
    with beam.Pipeline(runner=runner, options=options) as root:
        build(root, plan, inputs, attempt.path)
    result = commit.read_result(attempt)
    ledger = build_ledger(result.terms, written_rows(result.descriptors), len(plan.metrics))
    if not result.problems:
        check_ledger(ledger, plan, inputs, attempt.path)
    described = [file.describe() for file in inputs.files]
    manifest = commit.finish(attempt, plan.describe(), described, versions(engine), ledger, result)
    return RunOutcome(attempt.name, attempt.path, manifest, engine)


def written_rows(descriptors: tuple[commit.FileDescriptor, ...]) -> dict[str, int]:
    """What the files hold, by their writers' word: metric rows by status, and rows of rejected records."""
    written: dict[str, int] = {"rejected": 0}
    for file in descriptors:
        for status, rows in file.statuses.items():
            written[status] = written.get(status, 0) + rows
        if file.kind == "rejected":
            written["rejected"] += file.rows
    return written


def check_ledger(ledger: dict[str, Any], plan: Plan, inputs: Inputs, path: str) -> None:
    """Refuse a run that its own counts speak against."""
    wrong = imbalances(ledger)
    if wrong:
        raise ContractError(f"not committed: the ledger does not balance: {'; '.join(wrong)}")
    files = {side: len(getattr(inputs, side)) for side in SIDES}
    against = objections(ledger, plan, files, lambda: _why_apart(plan, inputs))
    if against:
        looked = f"; see {redact(path)}/rejected" if " rejected " in against[0] else ""
        raise ContractError(f"not committed: {against[0]}{looked}")


def _note_unread(inputs: Inputs) -> None:
    """Columns that nobody will read, said once: one of them may be a mistyped one."""
    for side in SIDES:
        unread = dict.fromkeys(name for file in getattr(inputs, side) for name in file.unread)
        if unread:
            logging.getLogger("inputs").warning("%s", plain(f"{side}: columns not read: {', '.join(unread)}"))


def _why_apart(plan: Plan, inputs: Inputs) -> str:
    """From a second look at the files: the run's own ids are on its workers."""
    from .validate import report

    return report(plan, inputs).why_apart()


def versions(engine: str) -> dict[str, str]:
    """The parts that can move a number, and what ran them."""
    found = {"engine": engine, "python": platform.python_version(), "machine": platform.machine()}
    for part in _PARTS:
        try:
            found[part] = metadata.version(part)
        except metadata.PackageNotFoundError:
            found[part] = "(not installed)"
    return found
