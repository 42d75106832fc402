"""Makes a run visible whole or not at all.

A run works in a fresh attempt directory that nobody reads. Committing checks every file against what its writer said of
it, writes the ledger and the manifest, and last swaps CURRENT, one small file that names the attempt. Killed at any
step, the old CURRENT still stands over untouched files. `committed` is the way back in.
"""

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from . import storage
from .committed import (
    Run,
    attempt_name,
    checked_part,
    committed_dates,
    current_text,
    date_dir,
    open_run,
    part_name,
    read_json,
    read_manifest,
    sealed,
)
from .errors import ContractError
from .interrupts import point_of_no_return
from .redact import redact

__all__ = [
    "Attempt",
    "FileDescriptor",
    "Result",
    "Run",
    "begin",
    "check_files",
    "committed_dates",
    "finish",
    "open_run",
    "publish",
    "read_result",
    "resume",
]


class FileDescriptor(NamedTuple):
    """What a writer says of a Parquet file that it closed."""

    kind: str
    path: str
    """Relative to the attempt: `per_sample/part-<random>.parquet`."""
    rows: int
    sha256: str
    statuses: dict[str, int]
    """Rows by status for per_sample files, empty for others."""


@dataclass(frozen=True)
class Result:
    """What the pipeline's last step wrote: the files that count, the ledger's terms, and what went wrong on the way."""

    descriptors: tuple[FileDescriptor, ...]
    terms: dict[str, int]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """One try at a date's run: where it writes, and the CURRENT that it may replace."""

    out: str
    run_date: str
    name: str
    replace: bool
    seen: str | None
    """CURRENT's text when the attempt began; None when there was none."""
    hold: storage.Hold | None = field(default=None, compare=False, repr=False)
    """Keeps `rankbeam clean` away for as long as this process lives."""

    @property
    def path(self) -> str:
        return storage.join(date_dir(self.out, self.run_date), self.name)


def begin(out: str, run_date: str, replace: bool) -> Attempt:
    """A fresh attempt directory for a date. A date that is committed already is refused unless `replace`."""
    out = storage.normal(out)
    seen = current_text(out, run_date)
    if seen is not None and not replace:
        raise ContractError(
            f"run_date {run_date} is already committed in {redact(out)} by {seen.strip()}; "
            "pass --replace to put another run in its place"
        )
    name = f"attempt={datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(8)}"
    path = storage.join(date_dir(out, run_date), name)
    storage.make_folder(path)
    # Kept with the attempt, so that a commit by another process knows which CURRENT this one may replace.
    begun = storage.join(path, "_attempt.json")
    storage.write_json(begun, {"replace": replace, "seen": seen})
    return Attempt(out, run_date, name, replace, seen, _held(begun))


def resume(out: str, run_date: str, name: str) -> Attempt:
    """An attempt that another process began, to be committed by this one."""
    out = storage.normal(out)
    path = storage.join(date_dir(out, run_date), attempt_name(name, "--attempt"))
    where = storage.join(path, "_attempt.json")
    hold = _held(where)  # first: what is read under it is not being removed
    begun = read_json(where)
    return Attempt(out, run_date, name, begun.get("replace") is True, begun.get("seen"), hold)


def read_result(attempt: Attempt) -> Result:
    """One complete result of the attempt's last step. There are several if that step was retried; any one will do."""
    for name in storage.matching(attempt.path, "_result-*.json"):
        result = _parse_result(storage.read_whole(storage.join(attempt.path, name)) or b"")
        if result is not None:
            return result
    raise ContractError(
        f"{redact(attempt.path)} holds no complete _result-*.json: its pipeline did not end well; run the date again"
    )


def finish(
    attempt: Attempt,
    plan: dict[str, Any],
    inputs: list[dict[str, Any]],
    versions: dict[str, str],
    ledger: dict[str, Any],
    result: Result | None = None,
) -> dict[str, Any]:
    """Check, write ledger and manifest, publish; gives the manifest.

    Pass the `result` that the ledger was built from: after a retry there may be two, and a ledger of one with the files
    of the other would be a mix.
    """
    result = read_result(attempt) if result is None else result
    # Written before it is judged: whoever looks into a refused run wants to see its counts.
    storage.write_json(storage.join(attempt.path, "ledger.json"), ledger)
    if result.problems:
        more = f" (and {len(result.problems) - 1} more)" if len(result.problems) > 1 else ""
        raise ContractError(f"not committed: {result.problems[0]}{more}")
    if ledger.get("balanced") is not True:
        path = redact(storage.join(attempt.path, "ledger.json"))
        raise ContractError(
            f"not committed: the ledger does not balance, a record was lost or counted twice; see {path}"
        )
    check_files(attempt, result.descriptors)
    manifest = sealed(_manifest(attempt, plan, inputs, versions, ledger, result.descriptors))
    storage.write_json(storage.join(attempt.path, "manifest.json"), manifest)
    publish(attempt)
    return manifest


def check_files(attempt: Attempt, descriptors: Iterable[FileDescriptor]) -> None:
    """Each file is there, holds the bytes its writer hashed, and as many rows as its writer counted."""
    checked = set()
    for file in descriptors:
        path = storage.join(attempt.path, part_name(file.path, attempt.path))
        if path in checked:
            raise ContractError(f"not committed: {redact(path)} is described twice; its rows would count twice")
        checked.add(path)
        checked_part(path, file.sha256, file.rows)


def publish(attempt: Attempt) -> None:
    """Swap CURRENT to this attempt, if CURRENT is still the one seen at the start. Doing it again changes nothing."""
    read_manifest(attempt.path)  # an attempt without one is not finished, and must not become visible
    if _current_name(attempt) == attempt.name:
        return
    path = storage.join(date_dir(attempt.out, attempt.run_date), "CURRENT")
    expected = None if attempt.seen is None else attempt.seen.encode()
    with point_of_no_return():
        if storage.compare_and_set(path, expected, f"{attempt.name}\n".encode()):
            return
        winner = _current_name(attempt)
        # Ours after all: a store may take a write, lose its answer, and refuse the client's own second try.
        if winner != attempt.name:
            raise ContractError(
                f"run_date {attempt.run_date} was committed in {redact(attempt.out)} by {winner} while this run "
                f"worked; {attempt.name} was not published: run again with --replace to put another run in its place"
            )


def result_name() -> str:
    """Fresh each time: a retried last step must not write over the result of the first try."""
    return f"_result-{secrets.token_hex(12)}.json"


def _held(path: str) -> storage.Hold | None:
    try:
        return storage.hold(path)
    except BlockingIOError as error:
        raise ContractError(f"{redact(path)}: `rankbeam clean` is removing this attempt; run the date again") from error


def _parse_result(data: bytes) -> Result | None:
    try:
        read = json.loads(data)
        descriptors = tuple(FileDescriptor(**file) for file in read["descriptors"])
        return Result(descriptors, dict(read["terms"]), tuple(read["problems"]))
    except (ValueError, TypeError, KeyError):
        return None


def _manifest(
    attempt: Attempt,
    plan: dict[str, Any],
    inputs: list[dict[str, Any]],
    versions: dict[str, str],
    ledger: dict[str, Any],
    descriptors: Iterable[FileDescriptor],
) -> dict[str, Any]:
    files = sorted(descriptors, key=lambda file: file.path)
    return {
        "run_date": attempt.run_date,
        "attempt": attempt.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "inputs": _without_secrets(inputs),
        "plan": _without_secrets(plan),
        "versions": versions,
        "ledger": ledger,
        "files": [{"path": file.path, "rows": file.rows, "sha256": file.sha256} for file in files],
    }


def _without_secrets(value: Any) -> Any:
    """Addresses and options come from users, sometimes with a key inside."""
    if isinstance(value, dict):
        return {key: _without_secrets(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_secrets(each) for each in value]
    return redact(value) if isinstance(value, str) else value


def _current_name(attempt: Attempt) -> str | None:
    text = current_text(attempt.out, attempt.run_date)
    return None if text is None else text.strip()
