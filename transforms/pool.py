"""PoolMetrics: the metric rows of all samples become one summary, of the whole set and of each slice.

Whatever is merged here is exact, so a summary has one bit pattern whatever the blocks, the bundles and the runner were.
"""

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from . import exact
from .records import SUMMARY, Floats, Ints, MetricRows, Status

MAX_VALUES = 1000
"""So many values of a slice field have rows of their own; the others share one."""
NONE = "(none)"
OTHER = "(other)"
Z95 = 1.959963984540054

Key = tuple[int, str]
"""Which slice: 0 is the whole set, i the i-th field of the plan counted from 1; and the field's value there.

Numbers, because a field may well be called "all", and an empty text is a value like any other."""
WHOLE_SET: Key = (0, "")

Row = tuple[Any, ...]
"""One metric's line of the summary, without the names: k, then the columns of SUMMARY from mean on."""

# A slice keeps its values as they came until there are so many samples: most slices never get there, and counting
# the values of one sample costs as much as counting those of hundreds.
_PENDING_SAMPLES = 1024
_PENDING_PARTS = 16


@dataclass(eq=False)  # Beam tells transforms apart by identity
class PoolMetrics(beam.PTransform):
    """All blocks of metric rows into one element, the whole summary in the order of the plan."""

    metrics: Sequence[object]
    slice_by: Sequence[str] = ()
    max_values: int = MAX_VALUES
    places: int | None = None
    """Decimal places that means are rounded to, where a dialect does so."""

    def expand(self, blocks: beam.PCollection[MetricRows]) -> beam.PCollection[pa.RecordBatch]:
        names, slice_by = tuple(map(str, self.metrics)), tuple(self.slice_by)
        pooled = (
            blocks
            | "SplitSlices" >> beam.FlatMap(split, slice_by).with_output_types(Slice)
            | "PoolSlices" >> beam.CombinePerKey(PoolCombineFn()).with_output_types(Slice)
        )
        return (
            (self._fold_rare(pooled) if slice_by else pooled)
            | "DescribeSlices" >> beam.Map(describe, self.places).with_output_types(tuple[Key, list[Row]])
            | "GatherSlices" >> beam.combiners.ToList()
            | "Tabulate" >> beam.Map(_tabulate, names, slice_by).with_output_types(pa.RecordBatch)
        )

    def _fold_rare(self, pooled: "beam.PCollection[Slice]") -> "beam.PCollection[Slice]":
        frequent = (
            pooled
            | "RankValues" >> beam.FlatMap(_rank).with_output_types(tuple[int, tuple[int, str]])
            | "KeepFrequent" >> beam.combiners.Top.SmallestPerKey(self.max_values)
            | "NameFrequent" >> beam.MapTuple(_names).with_output_types(tuple[int, frozenset[str]])
        )
        folded = pooled | "FoldRare" >> beam.Map(_fold, beam.pvalue.AsDict(frequent)).with_output_types(Slice)
        # Only rare values go through a shuffle again: what the frequent ones hold can be large, and is complete.
        other = (
            folded
            | "TakeOther" >> beam.Filter(_is_other)
            | "PoolOther" >> beam.CombinePerKey(PoolCombineFn()).with_output_types(Slice)
        )
        named = folded | "TakeNamed" >> beam.Filter(lambda slice_: not _is_other(slice_))
        return (named, other) | "AllSlices" >> beam.Flatten()


class MeanCombineFn(beam.CombineFn):
    """The mean, exactly rounded; None of nothing. Takes floats or arrays of them; NaN is undefined, so left out."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], values: float | Floats) -> tuple[int, int]:
        n, total = accumulator
        defined = _defined(values)
        return n + len(defined), total + exact.total(defined)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        n = total = 0
        for more_n, more_total in accumulators:
            n, total = n + more_n, total + more_total
        return n, total

    def extract_output(self, accumulator: tuple[int, int]) -> float | None:
        n, total = accumulator
        return exact.mean(total, n) if n else None


class CountCombineFn(beam.CombineFn):
    """How many values the mean has. Takes floats or arrays of them; NaN is undefined and not counted."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, values: float | Floats) -> int:
        return accumulator + len(_defined(values))

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@dataclass(slots=True)
class Pooled:
    """What is known of the samples of one slice, for all metrics of the plan."""

    expected: int = 0
    missing: int = 0
    k: npt.NDArray[np.int32] | None = None
    """int32[2, m]: the lowest k and the lowest -k of each metric, so that one minimum merges both; None of nothing."""
    pending: list[Floats] = field(default_factory=list)
    """float64[m, *] each: values not yet counted."""
    tallies: list[exact.Tally] = field(default_factory=list)
    """The other values, a bag a metric; no bags as long as all are pending."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as bytes: of many small slices the pickling of arrays would be the larger part of the work."""
        k = None if self.k is None else self.k.tobytes()
        return _unpack, (self.expected, self.missing, k, [part.tobytes() for part in self.pending], self.tallies)


def _unpack(expected: int, missing: int, k: bytes | None, pending: list[bytes], tallies: list[exact.Tally]) -> Pooled:
    if k is None:
        return Pooled(expected, missing)
    span = np.frombuffer(k, np.int32).reshape(2, -1)
    parts = [np.frombuffer(part).reshape(span.shape[1], -1) for part in pending]
    return Pooled(expected, missing, span, parts, tallies)


Slice = tuple[Key, Pooled]


class PoolCombineFn(beam.CombineFn):
    """Every metric of a slice at once. MeanCombineFn's sums, read off the counted values that quantiles need anyway."""

    def create_accumulator(self) -> Pooled:
        return Pooled()

    def add_input(self, accumulator: Pooled, part: Pooled) -> Pooled:
        absorb(accumulator, part)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Pooled]) -> Pooled:
        merged = Pooled()
        for accumulator in accumulators:
            absorb(merged, accumulator)
        return merged

    def compact(self, accumulator: Pooled) -> Pooled:
        if len(accumulator.pending) > 1:
            accumulator.pending = [np.concatenate(accumulator.pending, axis=1)]
        return accumulator

    def extract_output(self, accumulator: Pooled) -> Pooled:
        return self.compact(accumulator)


def pool_rows(
    blocks: Iterable[MetricRows],
    metrics: Sequence[object],
    slice_by: Sequence[str] = (),
    max_values: int = MAX_VALUES,
    places: int | None = None,
) -> pa.Table:
    """What PoolMetrics gives, without Beam."""
    combine = PoolCombineFn()
    pooled: dict[Key, Pooled] = {}
    for block in blocks:
        for key, part in split(block, slice_by):
            pooled[key] = combine.add_input(pooled.get(key) or combine.create_accumulator(), part)
    ranks: dict[int, list[tuple[int, str]]] = {}
    for slice_ in pooled.items():
        for number, rank in _rank(slice_):
            ranks.setdefault(number, []).append(rank)
    frequent = dict(_names(number, heapq.nsmallest(max_values, values)) for number, values in ranks.items())
    folded: dict[Key, list[Pooled]] = {}
    for slice_ in pooled.items():
        key, part = _fold(slice_, frequent)
        folded.setdefault(key, []).append(part)
    described = [describe((key, combine.merge_accumulators(parts)), places) for key, parts in folded.items()]
    return pa.Table.from_batches([_tabulate(described, tuple(map(str, metrics)), slice_by)])


def split(block: MetricRows, slice_by: Sequence[str]) -> Iterator[Slice]:
    """The block as a part of the whole set, and of each slice that a sample of it belongs to."""
    n = len(block.outcome)
    if n == 0:
        return
    missing = block.outcome != Status.SCORED
    spans = np.stack([block.k.min(axis=1), -block.k.max(axis=1)])
    yield WHOLE_SET, Pooled(n, int(missing.sum()), spans, [block.values])
    for number, name in enumerate(slice_by, 1):
        values, starts, samples = _group(block.slices[name])
        stops = np.append(starts[1:], len(samples))
        absent = np.add.reduceat(missing[samples], starts, dtype=np.int64)
        k = np.take(block.k, samples, axis=1)
        spans = np.stack([np.minimum.reduceat(sign * k, starts, axis=1).T for sign in (1, -1)], axis=1)
        matrix = np.take(block.values, samples, axis=1)
        groups = zip(values, starts.tolist(), stops.tolist(), absent.tolist(), spans, strict=True)
        for value, start, stop, lacking, span in groups:
            # Copies: a view of a few columns would keep the whole block in memory.
            yield (number, value), Pooled(stop - start, lacking, span.copy(), [matrix[:, start:stop].copy()])


def _group(lists: pa.ListArray) -> tuple[list[str], Ints, Ints]:
    """The distinct values of some lists; the samples that hold each, value after value; where each value's begin.

    A sample counts once for a value, however often its list repeats it.
    """
    encoded = pc.dictionary_encode(lists.flatten())
    codes = encoded.indices.to_numpy().astype(np.int64)
    samples = pc.list_parent_indices(lists).to_numpy()
    codes, samples = np.divmod(np.unique(codes * len(lists) + samples), len(lists))
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return encoded.dictionary.to_pylist(), starts, samples


def absorb(into: Pooled, part: Pooled) -> None:
    """Add the part; it is left as it was, and no array of it is written to later."""
    into.expected += part.expected
    into.missing += part.missing
    if part.k is not None:
        into.k = part.k if into.k is None else np.minimum(into.k, part.k)
    if part.tallies:
        pairs = zip(into.tallies or [exact.EMPTY] * len(part.tallies), part.tallies, strict=True)
        into.tallies = [exact.merge(a, b) for a, b in pairs]
    into.pending.extend(part.pending)
    if sum(matrix.shape[1] for matrix in into.pending) > _PENDING_SAMPLES:
        into.tallies, into.pending = _counted(into), []
    elif len(into.pending) > _PENDING_PARTS:
        into.pending = [np.concatenate(into.pending, axis=1)]


def _counted(pooled: Pooled) -> list[exact.Tally]:
    """All values of the slice in their bags."""
    if not pooled.pending:
        return pooled.tallies
    matrix = np.concatenate(pooled.pending, axis=1) if len(pooled.pending) > 1 else pooled.pending[0]
    bags = pooled.tallies or [exact.EMPTY] * len(matrix)
    return [exact.add(bag, _defined(row)) for bag, row in zip(bags, matrix, strict=True)]


def _defined(values: float | Floats) -> Floats:
    array = np.atleast_1d(np.asarray(values, np.float64))
    undefined = np.isnan(array)
    return array[~undefined] if undefined.any() else array


def _rank(slice_: Slice) -> Iterator[tuple[int, tuple[int, str]]]:
    """Where a value stands in its field, lowest first: by samples, then by value. NONE and OTHER do not compete."""
    (number, value), pooled = slice_
    if number and value not in (NONE, OTHER):
        yield number, (-pooled.expected, value)


def _names(number: int, ranks: Iterable[tuple[int, str]]) -> tuple[int, frozenset[str]]:
    return number, frozenset(value for _, value in ranks)


def _fold(slice_: Slice, frequent: Mapping[int, Container[str]]) -> Slice:
    """Under OTHER if enough values of the field are more frequent, else as it was."""
    (number, value), pooled = slice_
    keeps = not number or value == NONE or value in frequent.get(number, ())
    return (number, value if keeps else OTHER), pooled


def _is_other(slice_: Slice) -> bool:
    return slice_[0][1] == OTHER


def describe(slice_: Slice, places: int | None = None) -> tuple[Key, list[Row]]:
    """The rows of one slice, a metric each in the order of the plan."""
    key, pooled = slice_
    spans = [] if pooled.k is None else pooled.k.T.tolist()
    bags = zip(_counted(pooled), spans, strict=True)
    return key, [_describe_metric(pooled, bag, low, minus_high, places) for bag, (low, minus_high) in bags]


def _describe_metric(pooled: Pooled, bag: exact.Tally, low_k: int, minus_high_k: int, places: int | None) -> Row:
    expected, missing = pooled.expected, pooled.missing
    answered = (expected - missing) / expected
    k = low_k if 0 < low_k == -minus_high_k else None
    if len(bag.values) == 0:
        return k, None, 0, expected, missing, expected, answered, *[None] * 7
    known = bag.exactly()
    n, mean = known.n, exact.mean(known.total, known.n)
    std = low = high = None
    if n > 1:
        std = exact.std(n, known.total, known.squares)
        reach = Z95 * std / math.sqrt(n)
        low, high = mean - reach, mean + reach
    spread = std, known.low, known.high, bag.quantile(50), bag.quantile(95), low, high
    shown = mean if places is None else round(mean, places)
    return k, shown, n, expected, missing, expected - n, answered, *spread


def _tabulate(
    slices: Iterable[tuple[Key, list[Row]]], metrics: Sequence[str], slice_by: Sequence[str]
) -> pa.RecordBatch:
    # No sample at all still makes a set of samples: a summary that says 0, not an empty file.
    nothing: list[Row] = [(None, None, 0, 0, 0, 0, *[None] * 8)] * len(metrics)
    described = {WHOLE_SET: nothing, **dict(slices)}
    rows = []
    for key in sorted(described, key=_place):
        where = ("all", None) if key == WHOLE_SET else (slice_by[key[0] - 1], key[1])
        rows += [(metric, k, *where, *rest) for metric, (k, *rest) in zip(metrics, described[key], strict=True)]
    arrays = [pa.array([row[i] for row in rows], column.type) for i, column in enumerate(SUMMARY)]
    return pa.RecordBatch.from_arrays(arrays, schema=SUMMARY)


def _place(key: Key) -> tuple[int, int, str]:
    """The whole set, then the fields as in the plan; of a field the values in order, then NONE, then OTHER."""
    number, value = key
    return number, {NONE: 1, OTHER: 2}.get(value, 0), value
