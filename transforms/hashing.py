"""Stable hashes of Arrow columns, vectorised: the bucket of an id, the digest of a record, the key of a document.

The same value gives the same hash in every process, on every runner and in every release of one major version. The
hashes spread well but are not cryptographic. Where a match decides a score the strings themselves are compared; two
records of one id are told apart by 128 bits, so among n records of one id the chance that two different ones pass for
copies is below n² / 2**129.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

Hashes = npt.NDArray[np.uint64]

_LANES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_MULTIPLY = np.uint64(0xFF51AFD7ED558CCD)
_STIR = np.uint64(0xC4CEB9FE1A85EC53)
_NULL = np.uint64(0x27220A957FF2D4A1)
_LONG = 64  # bytes; past this one call of a C hash a string beats one numpy pass a word


def bucket_of(ids: pa.Array, buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each id: the high bits scaled to the count, so that any count of buckets spreads evenly."""
    high = hash_column(ids) >> np.uint64(32)
    return ((high * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def digest_columns(columns: Iterable[pa.Array]) -> tuple[Hashes, Hashes]:
    """The 128-bit digest of each row over all columns, as two lanes; the order of the columns matters."""
    arrays = list(columns)
    high, low = (_combine([hash_column(array, lane) for array in arrays]) for lane in (0, 1))
    return high, low


def hash_column(column: pa.Array, lane: int = 0) -> Hashes:
    """One 64-bit hash a row of any Arrow column, nested or not; null hashes unlike any value."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = hash_column(column.dictionary, lane)
        if len(values) == 0:
            return np.full(len(column), _NULL)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        hashes = values[codes]
    elif _is_text(kind):
        hashes = _hash_bytes(column, lane)
    elif pa.types.is_struct(kind):
        fields = [hash_column(column.field(i), lane) for i in range(kind.num_fields)]
        hashes = _combine([np.full(len(column), np.uint64(kind.num_fields)), *fields])
    elif pa.types.is_nested(kind):
        offsets, values = list_parts(column)
        hashes = hash_lists(offsets, hash_column(values, lane))
    elif pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    else:
        hashes = _hash_fixed(column, lane)
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes)
    return hashes


def hash_lists(offsets: npt.NDArray[Any], hashes: Hashes) -> Hashes:
    """One hash a list from the hashes of its items: each is stirred with its position, then all are added up."""
    lengths = np.diff(offsets)
    position = np.arange(len(hashes), dtype=np.uint64) - np.repeat(offsets[:-1].astype(np.uint64), lengths)
    stirred = _mix(hashes + position * _STIR)
    running = np.zeros(len(hashes) + 1, np.uint64)
    np.cumsum(stirred, out=running[1:])
    return _mix((running[offsets[1:]] - running[offsets[:-1]]) ^ lengths.astype(np.uint64))


def pair_hashes(rows: npt.NDArray[Any], hashes: Hashes) -> Hashes:
    """The hash of a (row, document) pair."""
    return _mix(hashes + rows.astype(np.uint64) * _STIR)


def list_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Offsets from 0 and the items of a list-like or map column; a null list has no items."""
    kind = column.type
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        return _from_zero(column, pairs)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        column = column.cast(pa.large_list(kind.value_type))
    return _from_zero(column, column.values)


def _from_zero(column: pa.Array, values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    offsets = column.offsets.to_numpy().astype(np.int64)
    if column.null_count:
        # A null list may still span items in the buffer; flatten() drops them, so count what it keeps.
        lengths = np.diff(offsets)
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
        kept = np.repeat(~column.is_null().to_numpy(zero_copy_only=False), np.diff(offsets))
        values = values.slice(offsets[0], offsets[-1] - offsets[0]).filter(pa.array(kept))
        return np.concatenate(([0], np.cumsum(lengths))), values
    return offsets - offsets[0], values.slice(offsets[0], offsets[-1] - offsets[0])


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _mix(hashes: Hashes) -> Hashes:
    """Finalise: every input bit moves every output bit. The argument is overwritten."""
    hashes ^= hashes >> np.uint64(33)
    hashes *= _MULTIPLY
    hashes ^= hashes >> np.uint64(29)
    hashes *= _STIR
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _combine(columns: list[Hashes]) -> Hashes:
    total = np.zeros(len(columns[0]), np.uint64)
    for hashes in columns:
        total = _mix(total * _MULTIPLY + hashes)
    return total


def _hash_fixed(column: pa.Array, lane: int) -> Hashes:
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        # Numbers hash by value, so that 1 and 1.0 are one content; + 0.0 makes -0.0 equal to 0.0.
        numbers = pc.cast(column.fill_null(False if pa.types.is_boolean(column.type) else 0), pa.float64(), safe=False)
        bits = (numbers.to_numpy(zero_copy_only=False) + 0.0).view(np.uint64)
        return _mix(bits ^ np.uint64(_LANES[lane]))
    return _hash_bytes(column.cast(pa.string()), lane)


def _hash_bytes(column: pa.Array, lane: int) -> Hashes:
    """Hash each string word by word over all strings at once; the long ones one by one in C."""
    n = len(column)
    if n == 0:
        return np.zeros(0, np.uint64)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64 if large else np.int32)[column.offset : column.offset + n + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 8, np.uint8)  # eight bytes of room, so that a word may be read at any start
    if last > first:
        data[:-8] = np.frombuffer(data_buffer, np.uint8)[first:last]
    starts = offsets[:-1].astype(np.int64) - first
    lengths = np.diff(offsets).astype(np.int64)

    hashes = lengths.astype(np.uint64) * _MULTIPLY ^ np.uint64(_LANES[lane])
    short = lengths <= _LONG
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    active = slice(None) if short.all() else np.flatnonzero(short)
    begin, left, state = starts[active], lengths[active], hashes[active]
    deepest = int(left.max(initial=0))
    for at in range(0, deepest, 8):
        live = np.flatnonzero(left > at)
        whole = len(live) == len(left)
        word = words[(begin if whole else begin[live]) + at]
        rest = (left if whole else left[live]) - at
        unused = np.uint64(8) * (8 - np.minimum(rest, 8)).astype(np.uint64)
        word &= np.uint64(0xFFFFFFFFFFFFFFFF) >> unused
        mixed = (state if whole else state[live]) ^ word
        mixed *= _STIR
        mixed ^= mixed >> np.uint64(31)
        if whole:
            state = mixed
        else:
            state[live] = mixed
    hashes[active] = _mix(state)
    if not short.all():
        view = memoryview(data)
        for i in np.flatnonzero(~short):
            start = int(starts[i])
            hashes[i] = xxhash.xxh3_64_intdigest(view[start : start + int(lengths[i])], _LANES[lane])
    return hashes
