"""Find the gold's documents in the rankings: exactly, and without looking closely at what cannot match."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import list_parts, spread
from .gold import Kind
from .hashing import Hashes, hash_column, pair_hashes
from .join import Joined
from .metrics.judged import Judged
from .records import Bools, Floats, Ints
from .repeats import first_occurrences

_SLOTS_PER_PAIR = 8


def judge(joined: Joined) -> Judged:
    """The judged entries of every sample of a joined block."""
    n = joined.samples.num_rows
    offsets, docs = list_parts(joined.samples["docs"])
    hashes = hash_column(docs)
    gold_row = spread(offsets)
    gain = _gains(joined.samples, gold_row)

    starts, entries = list_parts(joined.outputs["docs"])
    output = spread(starts)
    sample = joined.owner[output]
    entry, gold = match(docs, hashes, gold_row, entries, hash_column(entries), sample)
    row, rank = sample[entry], list_parts(joined.outputs["ranks"])[1].to_numpy()[entry].astype(np.int64)
    order = np.argsort(row * (int(rank.max(initial=0)) + 1) + rank, kind="stable")
    row, rank, gold = row[order], rank[order], gold[order]

    grouped = joined.samples["kind"].to_numpy() == Kind.GROUPS
    if grouped.any():
        group_row, group_of = _groups(joined.samples, gold_row, grouped)
        firsts = first_occurrences(offsets, docs, hashes)
        primary: Bools = np.ones(len(docs), np.bool_) if firsts is None else firsts
    else:
        group_row, group_of, primary = gold_row, np.arange(len(docs)), np.ones(len(docs), np.bool_)
    group_gain = np.zeros(len(group_row))
    group_gain[group_of] = gain
    nowhere = np.iinfo(np.int64).max
    group_rank = np.full(len(group_row), nowhere)
    np.minimum.at(group_rank, group_of[gold], rank)
    group_rank[group_rank == nowhere] = 0

    length = np.zeros(n, np.int64)
    read = joined.owner >= 0
    length[joined.owner[read]] = joined.outputs["length"].to_numpy()[read]
    entry_is_primary = primary[gold]
    ideal = np.lexsort((-gain[primary], gold_row[primary]))
    return Judged(
        n=n,
        row=row[entry_is_primary],
        rank=rank[entry_is_primary],
        gain=gain[gold][entry_is_primary],
        length=length,
        gold_row=gold_row[primary][ideal],
        gold_gain=gain[primary][ideal],
        group_row=group_row,
        group_gain=group_gain,
        group_rank=group_rank,
    )


def match(
    docs: pa.Array, doc_hashes: Hashes, gold_row: Ints, entries: pa.Array, entry_hashes: Hashes, sample: Ints
) -> tuple[Ints, Ints]:
    """Every (entry, gold document) pair of one sample and one id, in order of the entries.

    A table of bits by hash turns away nearly all entries that the gold does not know; 64-bit keys find the partner of
    the others; the ids themselves then decide, so no collision can make a match.
    """
    nothing = np.zeros(0, np.int64)
    if not len(docs) or not len(entries):
        return nothing, nothing
    gold_keys = pair_hashes(gold_row, doc_hashes)
    entry_keys = pair_hashes(sample, entry_hashes)
    bits = max(6, int(len(docs) * _SLOTS_PER_PAIR).bit_length())
    gold_slots, entry_slots = ((keys >> np.uint64(64 - bits)).view(np.int64) for keys in (gold_keys, entry_keys))
    table = np.zeros(1 << bits, np.bool_)
    table[gold_slots] = True
    candidates = np.flatnonzero(table[entry_slots] & (sample >= 0))
    # Only gold that some candidate may be is worth sorting.
    table[:] = False
    table[entry_slots[candidates]] = True
    order = np.flatnonzero(table[gold_slots])
    order = order[np.argsort(gold_keys[order], kind="stable")]
    gold_keys = gold_keys[order]
    keys = entry_keys[candidates]
    # All gold under an entry's key at once: more than one document where the id is in several groups.
    first = np.searchsorted(gold_keys, keys)
    partners = np.searchsorted(gold_keys, keys, side="right") - first
    entry = np.repeat(candidates, partners)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(partners) - partners, partners)
    gold = order[np.repeat(first, partners) + within]
    equal = pc.equal(docs.take(pa.array(gold)), entries.take(pa.array(entry))).to_numpy(zero_copy_only=False)
    hit = equal & (gold_row[gold] == sample[entry])
    return entry[hit], gold[hit]


def _gains(samples: pa.RecordBatch, gold_row: Ints) -> Floats:
    graded = samples["gains"].is_valid().to_numpy(zero_copy_only=False)
    gains = np.ones(len(gold_row))
    if graded.any():
        gains[graded[gold_row]] = list_parts(samples["gains"])[1].to_numpy()
    return gains


def _groups(samples: pa.RecordBatch, gold_row: Ints, grouped: Bools) -> tuple[Ints, Ints]:
    """Group → sample, and gold document → group. Outside grouped gold every document is a group of its own."""
    number = np.arange(len(gold_row))
    number[grouped[gold_row]] = list_parts(samples["groups"])[1].to_numpy()
    keys, group_of = np.unique(gold_row * (int(number.max(initial=0)) + 1) + number, return_inverse=True)
    group_row = np.zeros(len(keys), np.int64)
    group_row[group_of] = gold_row
    return group_row, group_of
