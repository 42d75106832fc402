"""Find the gold's documents in the rankings: exactly, and without looking closely at what cannot match."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import texts
from .columns import list_parts, spread
from .dialects import BY_ID, STANDARD, Dialect, Matching
from .gold import Kind
from .hashing import Hashes, hash_column, pair_hashes
from .join import Joined
from .metrics.judged import Judged
from .records import Bools, Floats, Ints
from .repeats import first_occurrences

_SLOTS_PER_PAIR = 8


@dataclass
class _Gold:
    """What there is to find, sample after sample."""

    offsets: Ints
    docs: pa.Array
    row: Ints
    gain: Floats
    group_row: Ints
    group_of: Ints
    primary: Bools
    """Document → whether it is the first of its id in its sample: an id may stand in several groups."""


@dataclass
class _Entries:
    """What there is to find it in."""

    docs: pa.Array
    sample: Ints
    """Entry → its sample, or -1 where its list is not to be read."""
    rank: Ints


def judge(joined: Joined, dialect: Dialect = STANDARD, matching: Matching = BY_ID) -> Judged:
    """The judged entries of every sample of a joined block."""
    n = joined.samples.num_rows
    gold = _answers(joined, dialect) if matching.how == "span" else _documents(joined, dialect)
    starts, docs = list_parts(joined.outputs["docs"])
    ranks = list_parts(joined.outputs["ranks"])[1].to_numpy()
    entries = _Entries(docs, joined.owner[spread(starts)], ranks)
    if matching.how == "id":
        hashes = hash_column(gold.docs)
        entry, found = match(gold.docs, hashes, gold.row, entries.docs, hash_column(entries.docs), entries.sample)
    else:
        entry, found = _match_texts(gold, entries, _texts(joined.outputs), matching)
    row, rank = entries.sample[entry], entries.rank[entry].astype(np.int64)
    order = np.argsort(row * (int(rank.max(initial=0)) + 1) + rank, kind="stable")
    row, rank, found = row[order], rank[order], found[order]

    group_gain = np.zeros(len(gold.group_row))
    group_gain[gold.group_of] = gold.gain
    nowhere = np.iinfo(np.int64).max
    match_group = gold.group_of[found]
    group_rank = np.full(len(gold.group_row), nowhere)
    np.minimum.at(group_rank, match_group, rank)
    group_rank[group_rank == nowhere] = 0

    length = np.zeros(n, np.int64)
    read = joined.owner >= 0
    length[joined.owner[read]] = joined.outputs["length"].to_numpy()[read]
    by_gain = np.lexsort((-gold.gain[gold.primary], gold.row[gold.primary]))
    gain = gold.gain[found]
    if matching.how == "id":
        kept = gold.primary[found]
        first = np.ones(np.count_nonzero(kept), np.bool_) if dialect.repeats == "first" else _firsts(found[kept])
    else:
        kept, gain = _best_of_each(row, rank, gain)
        first = np.ones(np.count_nonzero(kept), np.bool_)
    return Judged(
        n=n,
        row=row[kept],
        rank=rank[kept],
        gain=gain[kept],
        first=first,
        length=length,
        gold_row=gold.row[gold.primary][by_gain],
        gold_gain=gold.gain[gold.primary][by_gain],
        group_row=gold.group_row,
        group_gain=group_gain,
        group_rank=group_rank,
        match_group=match_group,
        match_rank=rank,
        listed=joined.samples["listed"].to_numpy().astype(np.int64),
    )


def _documents(joined: Joined, dialect: Dialect) -> _Gold:
    """The documents that the samples want."""
    offsets, docs = list_parts(joined.samples["docs"])
    row = spread(offsets)
    group_row, group_of, primary = row, np.arange(len(docs)), np.ones(len(docs), np.bool_)
    grouped = joined.samples["kind"].to_numpy() == Kind.GROUPS
    if grouped.any() or dialect.flat_gold == "one_group":
        group_row, group_of = _groups(joined.samples, row, grouped, dialect.flat_gold == "one_group")
    if grouped.any():
        firsts = first_occurrences(offsets, docs, hash_column(docs))
        primary = primary if firsts is None else firsts
    return _Gold(offsets, docs, row, _gains(joined.samples, row), group_row, group_of, primary)


def _answers(joined: Joined, dialect: Dialect) -> _Gold:
    """The samples' answers, each the one thing to find."""
    spans = joined.samples["answer"].to_pylist()
    blank_matches = dialect.blank_answer == "matches"
    row = np.array([i for i, s in enumerate(spans) if s is not None and texts.is_answer(s, blank_matches)], np.int64)
    offsets = np.searchsorted(row, np.arange(len(spans) + 1))
    docs = joined.samples["answer"].take(pa.array(row))
    return _Gold(offsets, docs, row, np.ones(len(row)), row, np.arange(len(row)), np.ones(len(row), np.bool_))


def _match_texts(gold: _Gold, entries: _Entries, given: pa.Array, matching: Matching) -> tuple[Ints, Ints]:
    """(entry, gold) pairs by what the texts say; an entry without a text is itself the text, but holds no answer."""
    read = np.maximum(entries.sample, 0)
    starts = np.append(gold.offsets, 0)[read]
    stops = np.where(entries.sample >= 0, np.append(gold.offsets, 0)[read + 1], starts)
    wanted = gold.docs.to_pylist()
    if matching.how == "span":
        return texts.holding(wanted, given.to_pylist(), starts, stops, matching.case_sensitive)
    chunks = pc.coalesce(given, entries.docs).to_pylist()
    if matching.how == "chunk":
        return texts.pieces_of(wanted, chunks, starts, stops)
    return texts.alike(wanted, chunks, starts, stops, matching.threshold)


def _texts(outputs: pa.RecordBatch) -> pa.Array:
    """The text of each entry, null where it has none; a list without any text is null as a whole."""
    _, items = list_parts(outputs["texts"])
    lengths = np.diff(list_parts(outputs["docs"])[0])
    present = np.repeat(outputs["texts"].is_valid().to_numpy(zero_copy_only=False), lengths)
    return items.take(pa.array(np.maximum(np.cumsum(present) - 1, 0), mask=~present))


def _firsts(documents: Ints) -> Bools:
    """Which of these, in order of rank, is the first of its document."""
    firsts = np.zeros(len(documents), np.bool_)
    firsts[np.unique(documents, return_index=True)[1]] = True
    return firsts


def _best_of_each(row: Ints, rank: Ints, gain: Floats) -> tuple[Bools, Floats]:
    """A text may match several documents: the entry counts once, with the largest gain. Sorted by row and rank."""
    fresh = (np.diff(row, prepend=-1) != 0) | (np.diff(rank, prepend=-1) != 0)
    starts = np.flatnonzero(fresh)
    best = gain.copy()
    if len(starts):
        best[starts] = np.maximum.reduceat(gain, starts)
    return fresh, best


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


def _groups(samples: pa.RecordBatch, gold_row: Ints, grouped: Bools, flat_is_one: bool) -> tuple[Ints, Ints]:
    """Group → sample, and gold document → group. Outside grouped gold every document is a group of its own, or all
    are one."""
    number = np.zeros(len(gold_row), np.int64) if flat_is_one else np.arange(len(gold_row))
    number[grouped[gold_row]] = list_parts(samples["groups"])[1].to_numpy()
    keys, group_of = np.unique(gold_row * (int(number.max(initial=0)) + 1) + number, return_inverse=True)
    group_row = np.zeros(len(keys), np.int64)
    group_row[group_of] = gold_row
    return group_row, group_of
