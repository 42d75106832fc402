"""Reads a committed run: CURRENT → manifest → files, never by listing a folder.

Orphans and abandoned attempts therefore do not exist here. Names that come out of a file are followed only if they look
exactly like the names a run writes, and no number is read from bytes that the manifest does not vouch for. The manifest
vouches for itself: it holds a hash of its own content, which finds damage, not a forger.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.records import PER_SAMPLE, REJECTED, SUMMARY

from . import storage
from .errors import ContractError, UsageError
from .redact import redact

# Nothing that matches these can climb out of its folder.
_ATTEMPT = re.compile(r"attempt=\d{8}T\d{6}Z-[0-9a-f]{8,64}", re.ASCII)
_PART = re.compile(r"(per_sample|summary|rejected)/part-[0-9a-f]{8,64}\.parquet", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class Run:
    """A committed run. What its tables hold was checked against the manifest, byte by byte."""

    path: str
    run_date: str
    attempt: str
    manifest: dict[str, Any]

    def verify(self) -> None:
        """Read every file that the manifest names; the first one missing or altered is an error with its name."""
        self.check_ledger()
        for file in self.manifest["files"]:
            self._bytes(file)

    def check_ledger(self) -> None:
        """ledger.json is there for people to open; it must not tell them other counts than the manifest."""
        path = storage.join(self.path, "ledger.json")
        if read_json(path) != self.manifest["ledger"]:
            raise ContractError(
                f"{redact(path)} was altered: it is not the ledger of the manifest beside it; restore it or run the "
                "date again"
            )

    def per_sample(self) -> pa.Table:
        return self._table("per_sample", PER_SAMPLE)

    def summary(self) -> pa.Table:
        return self._table("summary", SUMMARY)

    def rejected(self) -> pa.Table:
        return self._table("rejected", REJECTED)

    def _table(self, kind: str, schema: pa.Schema) -> pa.Table:
        files = [file for file in self.manifest["files"] if file["path"].startswith(f"{kind}/")]
        return pa.concat_tables([schema.empty_table(), *(self._read(file).cast(schema) for file in files)])

    def _read(self, file: dict[str, Any]) -> pa.Table:
        # Parsed from the very bytes that were hashed: a second look at the disk could see another file.
        return pq.read_table(pa.BufferReader(self._bytes(file)), page_checksum_verification=True)

    def _bytes(self, file: dict[str, Any]) -> bytes:
        return checked_part(storage.join(self.path, file["path"]), file["sha256"], file["rows"])


def open_run(out: str, run_date: str | None = None) -> Run:
    """The committed run of a date; of the latest committed date when none is given."""
    out = storage.normal(out)
    dates = committed_dates(out) if run_date is None else [run_date]
    if not dates:
        raise UsageError(f"no committed run in {redact(out)}; `rankbeam run --out` makes one")
    text = current_text(out, dates[-1])
    if text is None:
        others = ", ".join(committed_dates(out)[-5:]) or "none"
        raise UsageError(f"no committed run of {dates[-1]} in {redact(out)}; latest committed dates: {others}")
    name = text.strip()
    path = storage.join(date_dir(out, dates[-1]), name)
    if storage.read_whole(storage.join(path, "manifest.json")) is None:
        pointer = redact(storage.join(date_dir(out, dates[-1]), "CURRENT"))
        raise ContractError(
            f"{redact(path)}/manifest.json is missing, and {pointer} names it: one of the two was altered or lost; "
            "restore it or run the date again with --replace"
        )
    run = Run(path, dates[-1], name, read_manifest(path))
    run.check_ledger()
    return run


def committed_dates(out: str) -> list[str]:
    """Dates that hold a CURRENT, earliest first."""
    found = storage.matching(storage.normal(out), "run_date=*/CURRENT")
    dates = (name.split("/")[0].removeprefix("run_date=") for name in found)
    return sorted(each for each in dates if is_date(each))


def date_dir(out: str, run_date: str) -> str:
    if not is_date(run_date):
        raise UsageError(f"run_date {run_date!r} is not a date; write it like 2026-11-18")
    return storage.join(out, f"run_date={run_date}")


def current_text(out: str, run_date: str) -> str | None:
    """What a date's CURRENT holds, to the byte, once it is known to name an attempt; None when there is none."""
    path = storage.join(date_dir(out, run_date), "CURRENT")
    data = storage.read_whole(path)
    if data is None:
        return None
    text = data.decode("utf-8", "replace")
    attempt_name(text.removesuffix("\n"), path)
    return text


def attempt_name(name: str, where: str) -> str:
    if not _ATTEMPT.fullmatch(name):
        raise ContractError(f"{redact(where)} does not name an attempt: {name[:80]!r}; something else wrote it")
    return name


def part_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not _PART.fullmatch(name):
        raise ContractError(f"{redact(where)} names a file that no run writes: {str(name)[:80]!r}; it was not opened")
    return name


def read_manifest(path: str) -> dict[str, Any]:
    """The manifest of the attempt at `path`, with every field that is followed later already checked."""
    where = storage.join(path, "manifest.json")
    manifest = read_json(where)
    if manifest != sealed(manifest):
        raise ContractError(
            f"{redact(where)} was altered since it was written, or something else wrote it: its sha256 is not that of "
            "its content; nothing was read of the run: restore the file or run the date again"
        )
    files = manifest.get("files")
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        raise ContractError(f"{redact(where)} lists no files; something else wrote it, or it was damaged")
    for file in files:
        part_name(file.get("path"), where)
        if not _SHA256.fullmatch(str(file.get("sha256"))) or not isinstance(file.get("rows"), int):
            raise ContractError(f"{redact(where)} holds no sha256 or rows for {file['path']}; it was damaged")
    if not isinstance(manifest.get("ledger"), dict):
        raise ContractError(f"{redact(where)} holds no ledger; something else wrote it, or it was damaged")
    place = [f"run_date={manifest.get('run_date')}", manifest.get("attempt")]
    if path.split("/")[-2:] != place:
        raise ContractError(f"{redact(where)} is the manifest of {'/'.join(map(str, place))}, not of where it lies")
    return manifest


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the hash of its own content: of its JSON without the hash, keys sorted, no blanks, in ASCII."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def read_json(path: str) -> dict[str, Any]:
    data = storage.read_whole(path)
    if data is None:
        raise ContractError(f"{redact(path)} is missing; its run was not finished, or lost the file later")
    try:
        read = json.loads(data)
    except ValueError as error:
        raise ContractError(
            f"{redact(path)} is not JSON ({error}); something else wrote it, or it was damaged"
        ) from error
    if not isinstance(read, dict):
        raise ContractError(f"{redact(path)} holds no JSON object; something else wrote it, or it was damaged")
    return read


def checked_bytes(path: str, sha256: str) -> bytes:
    """The file's bytes, if they are those that its writer hashed."""
    data = storage.read_whole(path)
    if data is None:
        raise ContractError(f"{redact(path)} is missing; nothing was read from it: restore it or run the date again")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ContractError(
            f"{redact(path)} was altered since it was written; nothing was read of it: restore it or run the date again"
        )
    return data


def checked_part(path: str, sha256: str, rows: int) -> bytes:
    """The bytes of a Parquet file, if they are those that its writer hashed and hold as many rows as it counted."""
    data = checked_bytes(path, sha256)
    found = pq.read_metadata(pa.BufferReader(data)).num_rows
    if found != rows:
        raise ContractError(f"{redact(path)} holds {found} rows, its writer counted {rows}; nothing was read of it")
    return data


def is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
