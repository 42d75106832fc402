"""Formats of one line a document: the lines of a query are brought together, ordered, and parsed like any record.

A query's lines may lie anywhere, also in several files. Within a block they are gathered into one piece a query, so
what is shuffled is a list, not a line; pieces meet in the bucket of their query. From there on a query is a record:
`parse` gives it its digest, its defects and its columns, and counts it as read. Lines are counted beside it, once where
they are read and once where they arrive, because a lost line would only make a list shorter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from .columns import list_column, list_parts
from .join import split, unpack
from .ledger import PROGRESS
from .order import Queries, as_lists, as_maps, order_lists, without_copies
from .parse import Parsed, Source, Wants, parse_outputs, parse_samples, refuse
from .records import Columns, Ints, Long, place, unplace
from .sieve import Sieve

MAIN, REJECTED_TAG, TERMS_TAG = "blocks", "rejected", "terms"

PIECES = pa.schema(
    [
        pa.field("sample_id", pa.string()),
        pa.field("at", pa.int64()),
        pa.field("docs", pa.list_(pa.string())),
        pa.field("values", pa.list_(pa.float64())),
        pa.field("ranks", pa.list_(pa.float64())),
    ]
)
"""The lines that one block has of a query, in their order; `at` is the place of the first. Qrels have no ranks."""


@dataclass(frozen=True)
class Grouping:
    """How queries become records: whose they are, what goes on of them, and which of two equal scores comes first."""

    side: str
    sources: tuple[Source, ...]
    """By their numbers in the job."""
    wants: Wants
    ties: str = "trec"


@dataclass
class GroupByQuery(beam.PTransform):
    """Pieces of one side's queries to that side's blocks, with what was rejected and the ledger's terms."""

    grouping: Grouping
    buckets: int
    sieve: beam.PCollection | None = None

    def expand(self, pieces: beam.PCollection) -> Any:
        sides = [] if self.sieve is None else [beam.pvalue.AsSingleton(self.sieve)]
        order = beam.ParDo(_GroupBucketFn(self.grouping), *sides)
        return (
            pieces
            | "SplitPieces" >> beam.ParDo(_SplitPiecesFn(self.buckets))
            | beam.GroupByKey()
            | "Group" >> order.with_outputs(REJECTED_TAG, TERMS_TAG, main=MAIN)
        )


_Grouped: TypeAlias = (
    pa.RecordBatch | TaggedOutput[Literal["rejected"], pa.RecordBatch] | TaggedOutput[Literal["terms"], tuple[str, int]]
)


class _SplitPiecesFn(beam.DoFn):
    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def process(self, pieces: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        yield from split(pieces, self._buckets)


class _GroupBucketFn(beam.DoFn):
    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping

    def process(self, element: tuple[int, Iterable[bytes]], sieve: Sieve | None = None) -> Iterator[_Grouped]:
        _, parts = element
        batches = [unpack(part, PIECES) for part in parts]
        for parsed in group(batches, self._grouping, sieve):
            yield from emitted(parsed)


def emitted(parsed: Parsed) -> Iterator[_Grouped]:
    """What a step that parses gives: the block, with its rejected rows and its terms on outputs of their own."""
    PROGRESS.add(parsed.terms)
    for term in parsed.terms.items():
        yield TaggedOutput(TERMS_TAG, term)
    if parsed.rejected is not None:
        yield TaggedOutput(REJECTED_TAG, parsed.rejected)
    if parsed.block is not None and parsed.block.num_rows:
        yield parsed.block


def cut(long: Long, source: Source) -> Parsed:
    """One piece for each query of a block of lines; a line that was refused is a record of its own to the ledger."""
    found = refuse(long.refused, source)
    found.terms[f"noted.{source.side}.lines"] = long.lines
    found.terms[f"noted.{source.side}.lines_rejected"] = len(long.refused)
    block = _pieces(long, source.number) if len(long.numbers) else None
    return Parsed(block, found.rejected if long.refused else None, +found.terms)


def _pieces(long: Long, file: int) -> pa.RecordBatch:
    ids, docs, numbers, values, ranks = long.sample_ids, long.docs, long.numbers, long.values, long.ranks
    codes = ids.dictionary_encode().indices.to_numpy()
    starts = _starts(codes)
    if len(starts) > int(codes.max()) + 1:  # the lines of some query do not follow one another
        order = np.argsort(codes, kind="stable")
        ids, docs = ids.take(pa.array(order)), docs.take(pa.array(order))
        numbers, values, ranks = numbers[order], values[order], None if ranks is None else ranks[order]
        starts = _starts(codes[order])
    offsets = np.append(starts, len(codes))
    columns = [
        ids.take(pa.array(starts)),
        pa.array(place(file, numbers[starts])),
        list_column(offsets, docs),
        list_column(offsets, pa.array(values)),
        pa.nulls(len(starts), pa.list_(pa.float64())) if ranks is None else list_column(offsets, pa.array(ranks)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PIECES)


def group(batches: list[pa.RecordBatch], grouping: Grouping, sieve: Sieve | None = None) -> Iterator[Parsed]:
    """The queries of a bucket, given all pieces of them, in any order."""
    queries = gather(pa.concat_batches(batches))
    lines = {f"noted.{grouping.side}.lines_grouped": len(queries.docs)}
    yield Parsed(None, None, Counter(lines))
    yield from parse_queries(queries, grouping, sieve)


def gather(pieces: pa.RecordBatch) -> Queries:
    """Pieces of one query follow one another as they were read, whatever order they came in."""
    codes = pieces["sample_id"].dictionary_encode().indices.to_numpy()
    order = np.lexsort((pieces["at"].to_numpy(), codes))
    pieces, codes = pieces.take(pa.array(order)), codes[order]
    heads = _starts(codes)
    offsets, docs = list_parts(pieces["docs"])
    _, values = list_parts(pieces["values"])
    _, ranks = list_parts(pieces["ranks"])
    return Queries(
        pieces["at"].to_numpy()[heads],
        pieces["sample_id"].take(pa.array(heads)),
        np.append(offsets[heads], offsets[-1]),
        docs,
        values.to_numpy(),
        ranks.to_numpy() if len(ranks) == len(docs) else None,
    )


def parse_queries(queries: Queries, grouping: Grouping, sieve: Sieve | None = None) -> Iterator[Parsed]:
    """Queries as the records that they are; those of one file in one block, so that each can say its place."""
    queries, copies = without_copies(queries)
    noted = {"repeated_lines": copies}
    if grouping.side == "outputs":
        order, seen = order_lists(queries, grouping.ties)
        noted |= seen
        body = as_lists(queries, order)
    else:
        body = as_maps(queries)
    yield Parsed(None, None, Counter({f"noted.{grouping.side}.{word}": n for word, n in noted.items() if n}))
    places = [unplace(at) for at in queries.at.tolist()]
    files = np.array([file for file, _ in places], np.int64)
    for file in np.unique(files).tolist():
        rows = np.flatnonzero(files == file)
        batch = body if len(rows) == len(files) else body.take(pa.array(rows))
        raw = Columns(0, batch, [places[row][1] for row in rows], ordered=True)
        if grouping.side == "outputs":
            yield parse_outputs(raw, grouping.sources[file], grouping.wants, sieve)
        else:
            yield parse_samples(raw, grouping.sources[file], grouping.wants)


def _starts(codes: Ints) -> Ints:
    """Where a run of equal codes starts."""
    return np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
