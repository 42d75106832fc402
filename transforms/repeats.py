"""Repeats of an id within one list: found fast, taken out exactly."""

import numpy as np
import pyarrow as pa

from .hashing import Hashes
from .records import Bools, Ints

_ENTRIES_AT_ONCE = 1 << 20


def first_occurrences(offsets: Ints, items: pa.Array, hashes: Hashes) -> Bools | None:
    """True for every item that is the first of its value in its list; None when no list repeats anything.

    Sorting 32-bit hashes list by list finds the few lists that may hold a repeat; only those are compared exactly.
    """
    suspects = np.flatnonzero(_may_repeat(offsets, hashes))
    if not len(suspects):
        return None
    lengths = np.diff(offsets)[suspects]
    rows = np.repeat(np.arange(len(suspects)), lengths)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(offsets[:-1][suspects], lengths) + within
    codes = _codes(items.take(pa.array(places)))
    keys = rows * np.int64(codes.max(initial=0) + 1) + codes
    _, firsts = np.unique(keys, return_index=True)
    if len(firsts) == len(keys):
        return None
    keep = np.ones(len(items), np.bool_)
    keep[places] = False
    keep[places[firsts]] = True
    return keep


def _codes(items: pa.Array) -> Ints:
    """Equal items, equal numbers. A file's own dictionary may hold a value twice, so it is not trusted."""
    plain = items.dictionary_decode() if pa.types.is_dictionary(items.type) else items
    codes: Ints = plain.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return codes


def _may_repeat(offsets: Ints, hashes: Hashes) -> Bools:
    lengths = np.diff(offsets)
    narrow = (hashes >> np.uint64(32)).astype(np.uint32)
    found = np.zeros(len(lengths), np.bool_)
    # Lists of like length share a matrix: widths double, so padding at most doubles the work.
    width = 2
    pending = np.flatnonzero(lengths >= 2)
    while len(pending):
        fits = lengths[pending] <= width
        rows, pending = pending[fits], pending[~fits]
        if len(rows):
            longest = int(lengths[rows].max())
            step = max(1, _ENTRIES_AT_ONCE // longest)
            for start in range(0, len(rows), step):
                part = rows[start : start + step]
                found[part] = _rows_with_ties(narrow, offsets[part], lengths[part], longest)
        width *= 2
    return found


def _rows_with_ties(narrow: np.ndarray, starts: Ints, lengths: Ints, longest: int) -> Bools:
    columns = np.arange(longest)
    if (lengths == longest).all():
        matrix = narrow[starts[:, None] + columns]
    else:
        inside = columns < lengths[:, None]
        # Padding is numbered, so it ties with itself never and with a hash hardly ever: that costs a look, no more.
        matrix = np.where(inside, narrow[np.where(inside, starts[:, None] + columns, 0)], columns.astype(np.uint32))
    matrix.sort(axis=1)
    ties: Bools = (matrix[:, 1:] == matrix[:, :-1]).any(axis=1)
    return ties
