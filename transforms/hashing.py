"""Stable hashes of text columns, vectorised: the bucket of an id, the key of a document.

The same text gives the same hash in every process, on every runner and in every release of one major version. The
hashes spread well, no more: where a match decides anything, the texts themselves are compared.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from .columns import text_parts

Hashes = npt.NDArray[np.uint64]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY = np.uint64(0xFF51AFD7ED558CCD)
_STIR = np.uint64(0xC4CEB9FE1A85EC53)
_NULL = np.uint64(0x27220A957FF2D4A1)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_LONG = 64  # bytes; past this one call of a C hash a string beats one numpy pass a word
_AT_ONCE = 1 << 14  # strings; what is worked on then stays in the processor's cache


def bucket_of(ids: pa.Array, buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each id: the high bits scaled to the count, so that any count of buckets spreads evenly."""
    high = hash_column(ids) >> np.uint64(32)
    return ((high * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def hash_column(column: pa.Array) -> Hashes:
    """One 64-bit hash a row of a column of texts, also of a dictionary of them; null hashes unlike any text."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    if pa.types.is_dictionary(kind):
        if not len(column.dictionary):
            return np.full(len(column), _NULL)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        hashes: Hashes = hash_column(column.dictionary)[codes]
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        hashes = _hash_texts(column.cast(pa.large_binary()))
    else:
        hashes = _hash_texts(column)
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def pair_hashes(rows: npt.NDArray[Any], hashes: Hashes) -> Hashes:
    """The hash of a (row, document) pair."""
    return _mix(hashes + rows.astype(np.uint64) * _STIR)


def _mix(hashes: Hashes) -> Hashes:
    """Finalise: every input bit moves every output bit. The argument is overwritten."""
    hashes ^= hashes >> np.uint64(33)
    hashes *= _MULTIPLY
    hashes ^= hashes >> np.uint64(29)
    hashes *= _STIR
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _hash_texts(column: pa.Array) -> Hashes:
    n = len(column)
    hashes = np.empty(n, np.uint64)
    if n == 0:
        return hashes
    offsets, data = text_parts(column)
    for start in range(0, n, _AT_ONCE):
        hashes[start : start + _AT_ONCE] = _hash_some(data, offsets[start : start + _AT_ONCE + 1])
    return hashes


def _hash_some(data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> Hashes:
    """Hash strings word by word, all of them at once; the long ones one by one in C."""
    first, last = int(offsets[0]), int(offsets[-1])
    room = np.zeros(last - first + 8, np.uint8)  # eight bytes more, so that a word may be read at any start
    room[:-8] = data[first:last]
    words = np.ndarray((last - first + 1,), "<u8", room, strides=(1,))
    starts = (offsets[:-1] - first).astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    long = lengths > _LONG
    reach = np.where(long, 0, lengths) if long.any() else lengths
    shortest, longest = int(reach.min()), int(reach.max())
    state = lengths.astype(np.uint64) * _MULTIPLY ^ _SEED
    for at in range(0, longest, 8):
        live = slice(None) if shortest > at else np.flatnonzero(reach > at)
        word = words[starts[live] + at]
        if shortest < at + 8:
            word &= _MASKS[np.minimum(reach[live] - at, 8)]
        mixed = state[live] ^ word
        mixed *= _STIR
        mixed ^= mixed >> np.uint64(31)
        state[live] = mixed
    hashes = _mix(state)
    for i in np.flatnonzero(long):
        hashes[i] = xxhash.xxh3_64_intdigest(room[starts[i] : starts[i] + lengths[i]].tobytes(), int(_SEED))
    return hashes
