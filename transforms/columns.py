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
    places: Ints = np.repeat(offsets[:-1][rows], lengths) + within
    return places


def list_parts(column: pa.Array) -> tuple[Ints, pa.Array]:
    """Offsets from 0 and the items of a list in any layout, or of a map as {key, value}; a null list has no items."""
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    lengths = pc.list_value_length(column)
    if column.null_count:
        lengths = lengths.fill_null(0)
    # Not `values`: flatten minds the slice, the nulls, and that views may lie in any order.
    return list_offsets(lengths.to_numpy(zero_copy_only=False)), column.flatten()


def is_texts(kind: pa.DataType) -> bool:
    """Strings in any of Arrow's layouts; bytes too, as many writers never say that they mean text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in _TEXTS


_MOST_BYTES = (1 << 31) - 1

_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def is_list(kind: pa.DataType) -> bool:
    """A list in any of Arrow's layouts; a map is none."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def as_strings(column: pa.Array) -> pa.StringArray:
    """Any string layout, or integers, as plain strings."""
    if pa.types.is_dictionary(column.type):
        column = _written_out(as_strings(column.dictionary), column.indices)
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _written_out(dictionary: pa.StringArray, codes: pa.Array) -> pa.StringArray:
    """Each code's string. Arrow does not mind when their offsets pass 32 bits, and gives garbage; so we do."""
    lengths = np.diff(text_parts(dictionary)[0])
    if len(lengths) and int(lengths.max()) * len(codes) > _MOST_BYTES:
        total = int(lengths.astype(np.int64)[codes.drop_null().to_numpy(zero_copy_only=False)].sum())
        if total > _MOST_BYTES:
            raise OverflowError(f"{total >> 20} MiB of text in one block of a column; use smaller blocks")
    return dictionary.take(codes)


def text_parts(column: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Offsets of the strings of a plain column, and the bytes that they point into."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets_buffer, data_buffer = column.buffers()
    if offsets_buffer is None or not len(column):
        return np.zeros(len(column) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int64 if large else np.int32)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return offsets[column.offset : column.offset + len(column) + 1], data


# White space is ASCII below 33, or starts with one of these lead bytes in UTF-8: few ids need the full look.
_MAY_BE_BLANK = np.isin(np.arange(256), [*range(33), 0xC2, 0xE1, 0xE2, 0xE3])


def blank_items(column: pa.Array) -> Bools:
    """True where a string is null, empty or white space only."""
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        column = as_strings(column)
    if pa.types.is_dictionary(column.type):
        if not len(column.dictionary):
            return np.ones(len(column), np.bool_)
        blank = blank_items(column.dictionary)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = blank[codes] if blank.any() else np.zeros(len(column), np.bool_)
    else:
        found = np.zeros(len(column), np.bool_)
        offsets, data = text_parts(column)
        leads = data.take(offsets[:-1], mode="clip") if len(data) else np.zeros(len(column), np.uint8)
        suspects = np.flatnonzero(_MAY_BE_BLANK[leads] | (offsets[1:] == offsets[:-1]))
        if len(suspects):
            trimmed = pc.utf8_trim_whitespace(column.take(pa.array(suspects)))
            found[suspects] = pc.equal(trimmed, "").to_numpy(zero_copy_only=False)
    if column.null_count:
        found = found | column.is_null().to_numpy(zero_copy_only=False)
    return found
