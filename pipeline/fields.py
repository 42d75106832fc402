"""Other people's names for the contract's fields: the plan's `[fields]`, and the one projection that follows it.

A mapped field is found by its path and by nothing else; one that is not mapped keeps its own name. Where one of the
names for the retrieved list is mapped, the others are not looked at. A path is a name, or names joined by dots leading
into objects; a field that has the whole path for its name, as flattened tables do, goes before the way inside.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from transforms.limits import BrokenInput
from transforms.records import Columns, Lines, Refused, Rows
from transforms.tables import LISTS

from .errors import UsageError
from .nearest import suggestion

SAMPLE_COLUMNS = ("id", "input", "expected_output", "metadata", "answer")
OUTPUT_COLUMNS = (
    "id",
    "actual_output",
    "actualOutput",
    "retrieved",
    "error",
    "answer",
    "citations",
    "latency_ms",
    "usage",
    "cost",
)
COLUMNS = {"samples": SAMPLE_COLUMNS, "outputs": OUTPUT_COLUMNS}

_PATH = re.compile(r"[^.\s\[\]*$\"'](?:[^.\[\]*$\"'\x00-\x1f]*[^.\s\[\]*$\"'])?")

Pairs = tuple[tuple[str, str], ...]
Raw = Lines | Rows | Columns | Refused


@dataclass(frozen=True)
class Fields:
    """Field → path: for both sides as far as they have the field, and for each side alone, which goes before."""

    both: Pairs = ()
    samples: Pairs = ()
    outputs: Pairs = ()

    def of(self, side: str) -> dict[str, str]:
        own: Pairs = getattr(self, side)
        return {name: path for name, path in self.both if name in COLUMNS[side]} | dict(own)

    def describe(self) -> dict[str, dict[str, str]]:
        return {side: self.of(side) for side in COLUMNS}


def check_fields(value: Any, place: str) -> Fields:
    """The plan's table: names of fields at its top for both sides, or under `samples` and `outputs`."""
    if isinstance(value, Fields):
        return value
    sides: dict[str, Pairs] = {}
    both: dict[str, str] = {}
    for key, inner in value.items():
        if key in COLUMNS and isinstance(inner, dict):
            paths = {name: _path(path, f"{place}.{key}.{name}") for name, path in inner.items()}
            _check_names(paths, COLUMNS[key], f"{place}.{key}")
            sides[key] = tuple(paths.items())
        else:
            both[key] = inner
    _check_names(both, tuple(dict.fromkeys((*SAMPLE_COLUMNS, *OUTPUT_COLUMNS, *COLUMNS))), place)
    pairs = tuple((name, _path(path, f"{place}.{name}")) for name, path in both.items())
    return Fields(pairs, **sides)


def _check_names(names: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{place}.{name}: no field of the contract{suggestion(name, known)}")


def _path(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{place}: expected a text, the name of a field or a path such as inputs.qid")
    if not all(_PATH.fullmatch(part) for part in value.split(".")):
        raise UsageError(f"{place} {value!r}: expected plain names joined by dots, such as inputs.qid")
    return value


def wanted(mapping: Mapping[str, str], columns: Sequence[str]) -> tuple[str, ...]:
    """The top-level fields to read from a file."""
    roots = [root for path in mapping.values() for root in (path, path.split(".")[0])]
    return tuple(dict.fromkeys((*_unmapped(mapping, columns), *roots)))


def project(raw: Raw, mapping: Mapping[str, str], columns: Sequence[str], path: str) -> Raw:
    """A raw block under the contract's names."""
    own = _unmapped(mapping, columns)
    if isinstance(raw, Lines):
        return Lines(raw.numbers, [_renamed(line, mapping, own) for line in raw.data])
    if isinstance(raw, Rows):
        picked = [pick(each, mapping, own) if isinstance(each, Mapping) else each for each in raw.records]
        return Rows(raw.numbers, picked)
    if isinstance(raw, Columns):
        return Columns(raw.first, select(raw.batch, mapping, columns, path), raw.numbers)
    return raw


def select(batch: pa.RecordBatch, mapping: Mapping[str, str], columns: Sequence[str], path: str) -> pa.RecordBatch:
    """A batch under the contract's names. A path that leads nowhere is said, not taken for nulls: it is a mistake."""
    names = batch.schema.names
    found = {name: batch.column(names.index(name)) for name in _unmapped(mapping, columns) if name in names}
    for name, way in mapping.items():
        column = _walk_columns(batch, way)
        if column is None:
            held = ", ".join(f"{field.name}: {field.type}" for field in batch.schema) or "no columns"
            raise BrokenInput(path, f"the plan says that {name} is at {way}, and there is no {way}; found {held}")
        found[name] = column
    return pa.RecordBatch.from_arrays(list(found.values()), list(found))


def pick(record: Mapping[str, Any], mapping: Mapping[str, str], own: Sequence[str]) -> dict[str, Any]:
    """A record under the contract's names, with the fields that it has."""
    found = {name: record[name] for name in own if name in record}
    for name, way in mapping.items():
        value = record.get(way)
        if way not in record:
            value = record
            for part in way.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            found[name] = value
    return found


def _unmapped(mapping: Mapping[str, str], columns: Sequence[str]) -> list[str]:
    lists = LISTS if set(LISTS) & set(mapping) else ()
    return [name for name in columns if name not in mapping and name not in lists]


def _walk_columns(batch: pa.RecordBatch, way: str) -> pa.Array | None:
    names = batch.schema.names
    if way in names:
        return batch.column(names.index(way))
    root, *parts = way.split(".")
    if root not in names:
        return None
    column = batch.column(names.index(root))
    for part in parts:
        if not pa.types.is_struct(column.type) or part not in [field.name for field in column.type]:
            return None
        column = pc.struct_field(column, part)
    return column


def _renamed(line: bytes, mapping: Mapping[str, str], own: Sequence[str]) -> bytes:
    """A line under the contract's names; one that is no object stays as it is, for the parser to say what it is."""
    try:
        text = line.decode()
        record = msgspec.json.decode(line)
        return msgspec.json.encode(pick(record, mapping, own)) if isinstance(record, dict) else line
    except UnicodeDecodeError:
        return line
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        # Python's reader takes NaN, and its writer keeps it: the record is refused for that, and still has its id.
        record = json.loads(text)
        return json.dumps(pick(record, mapping, own)).encode() if isinstance(record, dict) else line
    except (ValueError, RecursionError):
        return line
