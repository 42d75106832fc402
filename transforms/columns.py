"""Small moves on Arrow list columns that several steps need."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .records import Bools, Ints


def list_offsets(lengths: npt.NDArray[Any]) -> Ints:
    """Offsets from 0 of lists of these lengths."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def list_column(offsets: Ints, items: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def spread(offsets: Ints) -> Ints:
    """Item → number of its list."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def places_of(offsets: Ints, rows: Ints) -> Ints:
    """Where the items of these lists lie, list after list."""
    lengths = np.diff(offsets)[rows]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(offsets[:-1][rows], lengths) + within


def is_texts(kind: pa.DataType) -> bool:
    """Strings in any of Arrow's layouts."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """A list in any of Arrow's layouts; a map is none."""
    return bool(pa.types.is_nested(kind) and not pa.types.is_struct(kind) and not pa.types.is_map(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def as_strings(column: pa.Array) -> pa.StringArray:
    """Any string layout, or integers, as plain strings."""
    if pa.types.is_dictionary(column.type):
        column = as_strings(column.dictionary).take(column.indices)
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def blank_items(column: pa.Array) -> Bools:
    """True where a string is null, empty or white space only."""
    if pa.types.is_dictionary(column.type):
        if not len(column.dictionary):
            return np.ones(len(column), np.bool_)
        blank = blank_items(column.dictionary)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = blank[codes] if blank.any() else np.zeros(len(column), np.bool_)
    else:
        found = np.zeros(len(column), np.bool_)
        # White space is ASCII below 33, or starts with one of these lead bytes in UTF-8: few ids need the full look.
        lead = pc.binary_slice(column.cast(pa.binary()), 0, 1) if len(column) else column.cast(pa.binary())
        suspects = np.flatnonzero(
            pc.or_(pc.less_equal(lead, b"\x20"), pc.is_in(lead, pa.array([b"\xc2", b"\xe1", b"\xe2", b"\xe3"])))
            .fill_null(False)
            .to_numpy(zero_copy_only=False)
        )
        if len(suspects):
            trimmed = pc.utf8_trim_whitespace(column.take(pa.array(suspects)))
            found[suspects] = pc.equal(trimmed, "").to_numpy(zero_copy_only=False)
    if column.null_count:
        found = found | column.is_null().to_numpy(zero_copy_only=False)
    return found
