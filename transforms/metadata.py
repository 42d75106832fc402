"""What a run reads of a sample's `metadata`: its own k, and the values that it is sliced by."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import list_column
from .decode import Flaw, canonical_json, json_value
from .metrics.judged import WHOLE
from .records import Ints

NO_VALUE = "(none)"


@dataclass
class Metadata:
    """Of n samples: the cutoff of each, 0 where it has none of its own, and for each slice field a list of values."""

    k: Ints
    slices: list[pa.ListArray]
    flaws: dict[int, Flaw] = field(default_factory=dict)
    ignored_k: int = 0
    """How many samples name a k that is no whole number above 0; they take the plan's, as if they named none."""


def read_metadata(values: list[Any], slice_by: tuple[str, ...]) -> Metadata:
    """Metadata from Python values: objects, or JSON of them."""
    flaws: dict[int, Flaw] = {}
    fields = []
    for i, value in enumerate(values):
        found = _object(value)
        if found is None:
            flaws[i] = Flaw("bad_gold", "metadata is not an object")
        fields.append(found or {})
    columns = {name: [each.get(name) for each in fields] for name in ("k", *slice_by)}
    return _metadata(columns, slice_by, flaws)


def read_metadata_column(column: pa.Array, slice_by: tuple[str, ...]) -> Metadata:
    """Metadata from an Arrow column; of a struct only the fields that are read."""
    if pa.types.is_null(column.type):
        nothing = list_column(np.arange(len(column) + 1), pa.repeat(NO_VALUE, len(column)))
        return Metadata(np.zeros(len(column), np.int64), [nothing for _ in slice_by])
    if not pa.types.is_struct(column.type):
        values = column.to_pylist()
        if pa.types.is_map(column.type):
            values = [None if value is None else dict(value) for value in values]
        return read_metadata(values, slice_by)
    columns: dict[str, list[Any]] = {}
    for name in ("k", *slice_by):
        known = column.type.get_field_index(name) >= 0
        columns[name] = pc.struct_field(column, name).to_pylist() if known else [None] * len(column)
    return _metadata(columns, slice_by, {})


def slice_values(value: Any) -> list[str]:
    """The slice values of a metadata field: each item of a list once, non-strings as JSON, nothing as `(none)`."""
    items = value if isinstance(value, (list, tuple)) else [value]
    texts = [item if isinstance(item, str) else canonical_json(item) for item in items if item is not None]
    return list(dict.fromkeys(text.encode(errors="replace").decode() for text in texts)) or [NO_VALUE]


def _metadata(columns: dict[str, list[Any]], slice_by: tuple[str, ...], flaws: dict[int, Flaw]) -> Metadata:
    slices = [pa.array(list(map(slice_values, columns[name])), pa.list_(pa.string())) for name in slice_by]
    k = np.array(list(map(_k, columns["k"])), np.int64)
    given = np.array([value is not None for value in columns["k"]], np.bool_)
    return Metadata(k, slices, flaws, int(np.count_nonzero(given & (k == 0))))


def _object(value: Any) -> dict[Any, Any] | None:
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json_value(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else {} if value is None else None


def _k(value: Any) -> int:
    """A sample's own cutoff, or 0 where it has no valid one."""
    valid = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 < value < WHOLE
    return int(value) if valid else 0
