"""Sums of floats without rounding, and counted values to read quantiles off. No Beam, no I/O.

A float64 is an integer times a power of two, so a sum of them is an integer in units of the smallest float there is,
2**-1074, and a sum of their squares one in units of 2**-2148. Integers add in any order to the same last bit, which is
why a pooled score does not depend on blocks, bundles or runners; only the last quotient is rounded, once.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .records import Bools, Floats, Ints

DISTINCT = 65_536
"""Up to so many distinct values a Tally keeps every one; past that, only their leading bits."""

# bincount adds up in float64, which is exact while every partial sum is an integer below 2**53. Hence limbs of at
# most 28 bits, times counts taken 9 bits at a time, for 2**16 values at a time.
_VALUES = 1 << 16
_COUNT_BITS = 9
_HALF = 26
_LOW = (1 << _HALF) - 1

_FRACTION_BITS = 52
_FRACTION = (1 << _FRACTION_BITS) - 1
_NOT_FINITE = 0x7FF
# A bin of the coarse histogram: sign, exponent and the first 12 bits of the fraction, so 1/4096 of its octave.
_BIN = ~((1 << 40) - 1)


def total(values: Floats, counts: Ints | None = None) -> int:
    """The sum of the values, each taken `counts` times, in units of 2**-1074. NaN and infinity are a ValueError."""
    result = 0
    for part, times in _chunks(values, counts):
        negative, mantissa, shift = _decompose(part)
        signed = np.where(negative, -mantissa, mantissa)
        # >> rounds down and & keeps what that left, so the two halves add up below zero, too.
        result += _weigh([(signed & _LOW, 0), (signed >> _HALF, _HALF)], shift, 1, times)
    return result


def squares(values: Floats, counts: Ints | None = None) -> int:
    """The sum of the squared values, each taken `counts` times, in units of 2**-2148."""
    result = 0
    for part, times in _chunks(values, counts):
        _, mantissa, shift = _decompose(part)
        low, high = mantissa & _LOW, mantissa >> _HALF
        # (high * 2**26 + low)**2 = upper * 2**52 + lower, with lower < 2**53 and upper < 2**54.
        cross = high * low
        lower = low * low + ((cross & (_LOW >> 1)) << (_HALF + 1))
        upper = high * high + (cross >> (_HALF - 1))
        limbs = [(lower & _LOW, 0), (lower >> _HALF, 26), (upper & _LOW, 52), (upper >> _HALF, 78)]
        result += _weigh(limbs, shift, 2, times)
    return result


def mean(total: int, n: int) -> float:
    """The mean, rounded once: Python divides two ints to the nearest float."""
    return total / (n << 1074)


def std(n: int, total: int, squares: int) -> float:
    """The sample standard deviation (over n - 1), rounded once; infinite only where no float is large enough."""
    if n < 2:
        raise ValueError("a standard deviation needs two values")
    return _root(n * squares - total * total, n * (n - 1) << 2148)


@dataclass(frozen=True, slots=True)
class Moments:
    """What a Tally still knows exactly about values that it no longer keeps one by one."""

    n: int
    total: int
    squares: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Tally:
    """A bag of finite floats: the distinct ones in ascending order and how often each occurs.

    Past DISTINCT of them the values are cut to their leading bits (a histogram with fixed bins) and `moments` keeps
    the rest exact. Whether that happened, and every number below, depends on the bag alone, not on how it was merged.
    """

    values: Floats
    counts: Ints
    moments: Moments | None = None

    def exactly(self) -> Moments:
        """Count, sums and range of the bag, which must not be empty."""
        if self.moments is not None:
            return self.moments
        n = int(self.counts.sum())
        sums = total(self.values, self.counts), squares(self.values, self.counts)
        return Moments(n, *sums, float(self.values[0]), float(self.values[-1]))

    def quantile(self, percent: int) -> float:
        """The value at the nearest rank, ceil(percent/100 * n); of a histogram, the bin's end that is nearer to 0."""
        upto = np.cumsum(self.counts)
        rank = -(-percent * int(upto[-1]) // 100)
        found = float(self.values[np.searchsorted(upto, max(rank, 1))])
        return found if self.moments is None else min(max(found, self.moments.low), self.moments.high)


EMPTY = Tally(np.empty(0, np.float64), np.empty(0, np.int64))


def tally(values: Floats) -> Tally:
    """The bag of some values. Zeros lose their sign, or the order of merging would decide which of them is kept."""
    return _limit(Tally(*_count(values + 0.0)))


def add(bag: Tally, values: Floats) -> Tally:
    """The bag with some more values. One that is a histogram already spares the newcomers their sorting."""
    if bag.moments is None or len(values) == 0:
        return merge(bag, tally(values))
    values = values + 0.0
    moments = Moments(len(values), total(values), squares(values), float(values.min()), float(values.max()))
    return merge(bag, Tally(*_count(_cut(values)), moments))


def merge(a: Tally, b: Tally) -> Tally:
    """The two bags in one."""
    if len(a.values) == 0 or len(b.values) == 0:
        return a if len(b.values) == 0 else b
    if a.moments is None and b.moments is None:
        return _limit(Tally(*_union(a, b)))
    a, b = _coarse(a), _coarse(b)
    return Tally(*_union(a, b), _join(a.exactly(), b.exactly()))


def _join(a: Moments, b: Moments) -> Moments:
    sums = a.n + b.n, a.total + b.total, a.squares + b.squares
    return Moments(*sums, min(a.low, b.low), max(a.high, b.high))


def _limit(bag: Tally) -> Tally:
    return bag if len(bag.values) <= DISTINCT else _coarse(bag)


def _coarse(bag: Tally) -> Tally:
    if bag.moments is not None:
        return bag
    cut = _cut(bag.values)
    starts = _starts(cut)
    return Tally(cut[starts], np.add.reduceat(bag.counts, starts), bag.exactly())


def _cut(values: Floats) -> Floats:
    """Towards zero to the bin's end: keeps the order of values, and leaves 0, 1/2 and 1 as they are."""
    return (values.view(np.int64) & _BIN).view(np.float64) + 0.0


def _count(values: Floats) -> tuple[Floats, Ints]:
    """Distinct values in ascending order, and how often each occurs."""
    few = values[:1024]
    if 2 * len(np.unique(few)) <= len(few):
        # Where values repeat, as those of most metrics do, Arrow's hash table takes a fifth of the time of a sort.
        found = pc.value_counts(pa.array(values))
        distinct, counts = (found.field(i).to_numpy(zero_copy_only=False) for i in range(2))
        order = np.argsort(distinct)
        return distinct[order], counts[order]
    values = np.sort(values)
    starts = _starts(values)
    return values[starts], np.diff(starts, append=len(values))


def _starts(ascending: Floats) -> Ints:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], ascending[1:] != ascending[:-1]))[: len(ascending)])


def _union(a: Tally, b: Tally) -> tuple[Floats, Ints]:
    """Distinct values and counts of both; the shorter list is looked up in the longer."""
    if len(a.values) < len(b.values):
        a, b = b, a
    at = np.searchsorted(a.values, b.values)
    known = a.values[np.minimum(at, len(a.values) - 1)] == b.values
    counts = a.counts.copy()
    counts[at[known]] += b.counts[known]
    if known.all():
        return a.values, counts
    new = ~known
    return np.insert(a.values, at[new], b.values[new]), np.insert(counts, at[new], b.counts[new])


def _chunks(values: Floats, counts: Ints | None) -> Iterator[tuple[Floats, Ints | None]]:
    for start in range(0, len(values), _VALUES):
        stop = start + _VALUES
        yield values[start:stop], None if counts is None else counts[start:stop]


def _decompose(values: Floats) -> tuple[Bools, Ints, Ints]:
    """Sign, mantissa and shift: |value| is mantissa << shift in units of 2**-1074. Subnormals need no case apart."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    exponent = (bits >> _FRACTION_BITS) & _NOT_FINITE
    if (exponent == _NOT_FINITE).any():
        raise ValueError("NaN and infinity have no exact sum")
    normal = exponent > 0
    return bits < 0, (bits & _FRACTION) | (normal.astype(np.int64) << _FRACTION_BITS), exponent - normal


def _weigh(limbs: Iterable[tuple[Ints, int]], shift: Ints, power: int, counts: Ints | None) -> int:
    """The sum of limb * count << (power * shift + place) over all limbs (with their place) and all values."""
    floor = int(shift.min())
    bins = shift - floor
    result = 0
    for times, scale in [(None, 0)] if counts is None else _digits(counts):
        for limb, place in limbs:
            sums = np.bincount(bins, limb if times is None else limb * times)
            for i in np.flatnonzero(sums).tolist():
                result += int(sums[i]) << (power * i + place + scale)
    return result << (power * floor)


def _digits(counts: Ints) -> Iterator[tuple[Ints, int]]:
    for scale in range(0, int(counts.max()).bit_length(), _COUNT_BITS):
        yield (counts >> scale) & ((1 << _COUNT_BITS) - 1), scale


def _root(p: int, q: int) -> float:
    """The square root of p/q, rounded once."""
    if p == 0:
        return 0.0
    half = (q.bit_length() - p.bit_length()) // 2 + 64
    up, down = (2 * half, 0) if half > 0 else (0, -2 * half)
    quotient, rest = divmod(p << up, q << down)
    root = math.isqrt(quotient)
    # The root has over 60 bits, so a last bit set for "and a little more" is all that the rounding can need to know.
    root |= bool(rest or root * root != quotient)
    try:
        return root / (1 << half) if half > 0 else float(root << -half)
    except OverflowError:
        return math.inf
