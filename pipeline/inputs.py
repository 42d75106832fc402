"""Patterns to input files, checked at launch: everything that can be known before a record is read."""

import difflib
import glob
import os
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.limits import BrokenInput
from transforms.parse import Source
from transforms.tables import check_columns

from . import storage
from .errors import ContractError, UsageError
from .fields import COLUMNS, Fields, select, wanted
from .formats import FORMATS, guess, peek
from .plan import Plan
from .redact import redact
from .storage import scheme

_PACKED = 5


@dataclass(frozen=True)
class InputFile:
    """One file of a side. `number` is its place among all files of the job; `shown` its path without secrets."""

    side: str
    number: int
    path: str
    shown: str
    format: str
    size: int
    unread: tuple[str, ...] = ()
    """Columns that are not of the contract, where the file has a schema that says so."""

    def describe(self) -> dict[str, Any]:
        found = {"side": self.side, "path": self.shown, "format": self.format, "bytes": self.size}
        return found | ({"unread_columns": list(self.unread)} if self.unread else {})


@dataclass(frozen=True)
class Inputs:
    """The files of both sides."""

    samples: tuple[InputFile, ...]
    outputs: tuple[InputFile, ...]

    @property
    def files(self) -> tuple[InputFile, ...]:
        return (*self.samples, *self.outputs)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(Source(file.side, file.number, file.shown) for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def unpacked(self) -> int:
        """About how much there is to read: lines of ids and numbers pack to a fifth or so."""
        return sum(file.size * (_PACKED if file.path.lower().endswith((".gz", ".zst")) else 1) for file in self.files)


def find_inputs(plan: Plan) -> Inputs:
    """All files of a plan, each looked at once: it exists, its format is known, its head is what its name says."""
    samples = _side("samples", plan.samples, plan.samples_format, 0, plan.fields)
    outputs = _side("outputs", plan.outputs, plan.outputs_format, len(samples), plan.fields)
    if plan.fields.both and not any(FORMATS[side[0].format].named for side in (samples, outputs)):
        raise UsageError(f"fields: neither {samples[0].format} nor {outputs[0].format} has fields with names")
    return Inputs(samples, outputs)


def _side(side: str, patterns: tuple[str, ...], asked: str | None, first: int, fields: Fields) -> tuple[InputFile, ...]:
    sizes: dict[str, int] = {}
    for pattern in patterns:
        found = _match(pattern)
        if not found:
            raise UsageError(f"--{side} {redact(pattern)}: no such file{_near(pattern)}")
        sizes.update(found)
    formats = {path: asked or guess(path) for path in sizes}
    for path, name in formats.items():
        if name is None:
            known = ", ".join(FORMATS)
            raise UsageError(f"{redact(path)}: cannot tell its format; say --{side}-format, one of {known}")
        if name not in FORMATS:
            raise UsageError(f"--{side}-format {name}: not read by this release; it reads {', '.join(FORMATS)}")
        if side not in FORMATS[name].sides:
            able = ", ".join(form.name for form in FORMATS.values() if side in form.sides)
            raise UsageError(f"--{side}: {name} is a format of {FORMATS[name].sides[0]}; {side} are read as {able}")
        if getattr(fields, side) and not FORMATS[name].named:
            raise UsageError(f"fields.{side}: {name} has no fields with names to map")
    if len(set(formats.values())) > 1:
        words = ", ".join(sorted(set(map(str, formats.values()))))
        raise UsageError(f"--{side}: files of several formats ({words}); give one side one format")
    if not any(sizes.values()):
        raise ContractError(f"--{side}: nothing in {_listed(sizes)}: every file is empty")
    files = [
        InputFile(side, first + i, path, redact(path), str(formats[path]), size)
        for i, (path, size) in enumerate(sorted(sizes.items()))
    ]
    mapping = fields.of(side)
    for file in files:
        if file.size:
            _check_head(file, mapping)
    return tuple(replace(file, unread=_unread(file, mapping)) if file.size else file for file in files)


def _unread(file: InputFile, mapping: dict[str, str]) -> tuple[str, ...]:
    names = FORMATS[file.format].names
    # Of a remote file the schema would be fetched once more; AutoRAG's columns are not ours to judge.
    if names is None or not FORMATS[file.format].named or scheme(file.path):
        return ()
    read = set(wanted(mapping, COLUMNS[file.side]))
    return tuple(name for name in names(file.path) if name not in read)


def _check_head(file: InputFile, mapping: dict[str, str]) -> None:
    try:
        peek(file.path, file.format)
        if file.format != "parquet" or scheme(file.path):
            return
        schema = pq.read_schema(file.path)
        if mapping:
            nothing = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
            schema = select(nothing, mapping, COLUMNS[file.side], file.shown).schema
    except BrokenInput as broken:
        raise ContractError(str(broken)) from None
    problem = check_columns(schema, file.side)
    if problem:
        hint = "; AutoRAG's need --samples-format autorag" if "retrieval_gt" in schema.names else ""
        raise ContractError(f"{file.shown}: {problem}{hint}")


def _match(pattern: str) -> dict[str, int]:
    if scheme(pattern) not in ("", "file"):
        if scheme(pattern) == "s3":
            storage._client("boto3", pattern)  # Beam has the file system without it, and fails at the first call
        matched = storage._filesystems(pattern)[0].match([pattern])
        return {found.path: found.size_in_bytes for found in matched[0].metadata_list}
    pattern = pattern.removeprefix("file://")
    paths = [pattern] if os.path.isfile(pattern) else glob.glob(pattern, recursive=True)
    return {path: os.path.getsize(path) for path in paths if os.path.isfile(path)}


def _near(pattern: str) -> str:
    """What the user may have meant, from the names that are there."""
    if scheme(pattern):
        return ""
    folder = os.path.dirname(pattern) or "."
    if os.path.isdir(pattern):
        return f"; it is a folder: say which files of it, as in '{os.path.join(pattern, '*.jsonl')}'"
    if not os.path.isdir(folder):
        return f"; there is no folder {folder}"
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    close = difflib.get_close_matches(os.path.basename(pattern), names, 3, 0.4)
    return f"; near names there: {', '.join(close)}" if close else f"; {folder} holds {len(names)} other names"


def _listed(paths: dict[str, int]) -> str:
    shown = [redact(path) for path in sorted(paths)[:3]]
    return ", ".join(shown) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
