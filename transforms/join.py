"""Samples meet outputs: exactly by id, inside buckets that only spread the work.

A block is folded before it is shuffled: copies of one record become one row that remembers where each copy was read,
so a million copies of one id cost eight bytes each. Whatever an id turns out to be (joined, missing, unmatched, a
duplicate, a conflict) is decided here, once, and counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput

from .columns import list_column, list_offsets, list_parts, places_of
from .conflicts import conflict_rows
from .dialects import DIALECTS
from .hashing import bucket_of, hash_column
from .ledger import PROGRESS
from .parse import Source, Wants
from .records import DEFECTS, ENVELOPE, Bools, Codes, Ints, Status, output_block, sample_block

_SIZE_BYTES = 8

MAIN, REJECTED_TAG, TERMS_TAG = "joined", "rejected", "terms"


@dataclass
class Joined:
    """The samples of one bucket that are to be scored, and what each one's output came to."""

    samples: pa.RecordBatch
    outcome: Codes
    outputs: pa.RecordBatch
    owner: Ints
    """Output → its sample, or -1 where the list is not to be read."""


@dataclass
class JoinById(beam.PTransform):
    """CoGroupByKey on a hash bucket of the id, then an exact join by id within the bucket."""

    buckets: int
    wants: Wants
    sources: tuple[Source, ...]

    def expand(self, sides: Any) -> Any:
        split = {
            side: blocks | f"Split{side.title()}" >> beam.ParDo(_SplitByBucketFn(self.buckets))
            for side, blocks in sides.items()
        }
        join = beam.ParDo(_JoinBucketFn(self.wants, self.sources))
        return split | beam.CoGroupByKey() | "Match" >> join.with_outputs(REJECTED_TAG, TERMS_TAG, main=MAIN)


_Decided: TypeAlias = (
    Joined | TaggedOutput[Literal["rejected"], pa.RecordBatch] | TaggedOutput[Literal["terms"], tuple[str, int]]
)


class _SplitByBucketFn(beam.DoFn):
    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def process(self, block: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        yield from split(fold(block), self._buckets)


class _JoinBucketFn(beam.DoFn):
    def __init__(self, wants: Wants, sources: tuple[Source, ...]) -> None:
        self._wants = wants
        self._sources = sources

    def process(self, element: tuple[int, dict[str, Iterable[bytes]]]) -> Iterator[_Decided]:
        _, sides = element
        samples = gather(sides["samples"], sample_block(self._wants.slice_by, self._wants.texts))
        outputs = gather(sides["outputs"], output_block(self._wants.texts))
        keeps_flawed = DIALECTS[self._wants.dialect].keeps_flawed
        joined, rejected, terms = join(samples, outputs, self._sources, keeps_flawed)
        PROGRESS.add(terms)
        for batch in rejected:
            yield TaggedOutput(REJECTED_TAG, batch)
        for term in terms.items():
            yield TaggedOutput(TERMS_TAG, term)
        if joined.samples.num_rows:
            yield joined


def fold(block: pa.RecordBatch) -> pa.RecordBatch:
    """One row for each (id, digest), with the places of all its copies; the order of first rows is kept."""
    ids = hash_column(block["sample_id"])
    if len(np.unique(ids)) == len(ids):
        return block
    codes = block["sample_id"].dictionary_encode().indices.to_numpy()
    high, low = block["digest_high"].to_numpy(), block["digest_low"].to_numpy()
    order = np.lexsort((low, high, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(high[order]) == 0) & (np.diff(low[order]) == 0)
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    keep = order[starts]  # lexsort is stable, so this is the earliest copy of each
    offsets, places = list_parts(block["at"])
    at = places.take(pa.array(places_of(offsets, order)))
    copies = np.add.reduceat(np.diff(offsets)[order], starts)
    column = block.schema.get_field_index("at")
    block = _without_bodies(block, np.bincount(codes[keep])[codes] > 1)
    folded = block.take(pa.array(keep)).set_column(
        column, block.schema.field("at"), list_column(list_offsets(copies), at)
    )
    return folded.take(pa.array(np.argsort(keep)))


def _without_bodies(block: pa.RecordBatch, conflicting: Bools) -> pa.RecordBatch:
    """Nothing of a record that another contradicts is ever read again but its envelope, so no more is shuffled."""
    if not conflicting.any():
        return block
    mask, envelope = pa.array(conflicting), {field.name for field in ENVELOPE}
    columns = [
        pc.if_else(mask, pa.scalar(None, field.type), column)
        if field.name not in envelope and not pa.types.is_primitive(field.type)
        else column
        for field, column in zip(block.schema, block.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=block.schema)


def split(block: pa.RecordBatch, buckets: int) -> Iterator[tuple[int, bytes]]:
    """The block's rows by bucket, each part as Arrow IPC bytes without the schema, which both ends know."""
    if buckets == 1:
        yield 0, pack(block)
        return
    bucket = bucket_of(block["sample_id"], buckets)
    order = np.argsort(bucket, kind="stable")
    ordered = block.take(pa.array(order))
    numbers, starts = np.unique(bucket[order], return_index=True)
    for number, start, stop in zip(numbers, starts, [*starts[1:], len(order)], strict=True):
        yield int(number), pack(ordered.slice(start, stop - start))


def pack(block: pa.RecordBatch) -> bytes:
    """A block for the shuffle: its size, then Arrow IPC without the schema, compressed.

    Engines copy shuffled bytes several times over; compressing them costs less than one of those copies.
    """
    plain = block.serialize()
    compressed: bytes = pa.compress(plain, codec="lz4", asbytes=True)
    return int(plain.size).to_bytes(_SIZE_BYTES, "little") + compressed


def unpack(part: bytes, schema: pa.Schema) -> pa.RecordBatch:
    size = int.from_bytes(part[:_SIZE_BYTES], "little")
    return pa.ipc.read_record_batch(pa.decompress(memoryview(part)[_SIZE_BYTES:], size, codec="lz4"), schema)


def gather(parts: Iterable[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The parts of a bucket as one folded block."""
    batches = [unpack(part, schema) for part in parts]
    if len(batches) == 1:
        return batches[0]
    return fold(pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema))


def join(
    samples: pa.RecordBatch, outputs: pa.RecordBatch, sources: tuple[Source, ...], keeps_flawed: bool = False
) -> tuple[Joined, Iterator[pa.RecordBatch], Counter[str]]:
    """Decide every id of a bucket, given the folded records of both sides; the rows for `rejected` are made as asked.

    A defective record was counted as rejected where it was read, and is passed over here; where the dialect keeps
    those, it was not, and is joined and counted like the others.
    """
    ids = pa.chunked_array([samples["sample_id"], outputs["sample_id"]]).combine_chunks()
    codes = ids.dictionary_encode().indices.to_numpy()
    distinct = int(codes.max(initial=-1)) + 1
    sample_side = _resolve(samples, codes[: len(samples)], distinct, keeps_flawed)
    output_side = _resolve(outputs, codes[len(samples) :], distinct, keeps_flawed)
    unreadable = outputs["defect"].to_numpy() != 0

    # What there is under each id on the outputs' side, then seen from the samples.
    state = np.full(distinct, Status.MISSING_OUTPUT, np.int8)
    state[output_side.codes[output_side.conflicting]] = Status.CONFLICT
    single = ~output_side.conflicting
    state[output_side.codes[single & unreadable]] = Status.BAD_OUTPUT
    usable = single & ~unreadable
    counting = single & ~output_side.defective
    failed = outputs["error"].to_numpy(zero_copy_only=False)
    state[output_side.codes[usable]] = np.where(failed[usable], Status.ERROR, Status.SCORED)

    kept = np.flatnonzero(~sample_side.conflicting & ~sample_side.defective)
    outcome = state[sample_side.codes[kept]]
    sample_of = np.full(distinct, -1)
    sample_of[sample_side.codes[kept]] = np.arange(len(kept))
    owner = np.where(usable & ~failed, sample_of[output_side.codes], -1)
    met = (Status.SCORED, Status.ERROR, Status.BAD_OUTPUT) if keeps_flawed else (Status.SCORED, Status.ERROR)
    answered = np.count_nonzero(np.isin(outcome, met))
    matched = np.count_nonzero(counting & (sample_of[output_side.codes] >= 0))
    terms = Counter(
        {
            "samples.joined": int(answered),
            "samples.missing": int(np.count_nonzero(~np.isin(outcome, met))),
            "samples.duplicate": sample_side.duplicates,
            "outputs.matched": int(matched),
            "outputs.unmatched": int(np.count_nonzero(counting & (sample_of[output_side.codes] < 0))),
            "outputs.duplicate": output_side.duplicates,
        }
    )
    rejected = []
    for side, block, found in (("samples", samples, sample_side), ("outputs", outputs, output_side)):
        told = np.flatnonzero(found.conflicting & (block["defect"].to_numpy() == 0))
        terms[f"{side}.rejected.conflict"] = int(found.copies[told].sum())
        rejected.append(conflict_rows(block, found.codes, found.conflicting, told, side, sources))
        for code, copies in _refused_and_conflicting(block, found).items():
            # Shown where it was read, under its own code; it has no rows after all, so it is rejected, not refused.
            terms[f"{side}.rejected.{code}"] = terms[f"{side}.settled.{code}"] = copies
    if len(kept) < len(samples):
        samples = samples.take(pa.array(kept))
    joined = Joined(samples, outcome, outputs, owner)
    terms = Counter({term: count for term, count in terms.items() if count})
    return joined, chain.from_iterable(rejected), terms


@dataclass
class _Side:
    codes: Ints
    conflicting: Bools
    """Row → whether another record of its id differs from it."""
    defective: Bools
    """Row → whether its reader has rejected it already; such a row is counted there, never here."""
    copies: Ints
    duplicates: int


def _resolve(block: pa.RecordBatch, codes: Ints, distinct: int, keeps_flawed: bool) -> _Side:
    conflicting = (np.bincount(codes, minlength=distinct) > 1)[codes]
    defective = (block["defect"].to_numpy() != 0) & (not keeps_flawed)
    copies = block["at"].value_lengths().to_numpy()
    duplicates = int((copies[~conflicting & ~defective] - 1).sum())
    return _Side(codes, conflicting, defective, copies, duplicates)


def _refused_and_conflicting(block: pa.RecordBatch, found: _Side) -> Counter[str]:
    """By code, the records that their reader refused but counted on, and that another of the same id contradicts."""
    defects = block["defect"].to_numpy()
    settled = found.conflicting & ~found.defective & (defects != 0)
    counts = np.bincount(defects[settled], weights=found.copies[settled], minlength=len(DEFECTS))
    return Counter({code: int(count) for code, count in zip(DEFECTS, counts, strict=True) if count})
