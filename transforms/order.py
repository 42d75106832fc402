"""Queries with numbers to their documents: copies taken out, lists put in the order that their scores say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .columns import list_column, list_offsets, places_of, spread
from .hashing import hash_column
from .records import Bools, Floats, Ints
from .repeats import first_occurrences

TIES = ("trec", "trec10", "given")
"""Which of two equal scores comes first. `trec`: scores are compared as float32, equal ones by document id, descending
by bytes. `trec10`: the same with doubles. `given`: scores are not looked at, the order is that of the lines."""


@dataclass
class Queries:
    """Whole queries, each a list of documents with a number: a gain, or a score that is to order them."""

    at: Ints
    sample_ids: pa.StringArray
    offsets: Ints
    docs: pa.StringArray
    values: Floats
    ranks: Floats | None = None

    def kept(self, items: Bools) -> "Queries":
        """Without the items that are not to be kept."""
        offsets = list_offsets(np.bincount(spread(self.offsets)[items], minlength=len(self.at)))
        ranks = None if self.ranks is None else self.ranks[items]
        return Queries(self.at, self.sample_ids, offsets, self.docs.filter(pa.array(items)), self.values[items], ranks)

    def take(self, rows: Ints) -> "Queries":
        """Some of the queries."""
        places = places_of(self.offsets, rows)
        ranks = None if self.ranks is None else self.ranks[places]
        offsets = list_offsets(np.diff(self.offsets)[rows])
        ids, docs = self.sample_ids.take(pa.array(rows)), self.docs.take(pa.array(places))
        return Queries(self.at[rows], ids, offsets, docs, self.values[places], ranks)


def without_copies(queries: Queries) -> tuple[Queries, int]:
    """Without lines that say what an earlier line of the query has said: the same document, the same number."""
    firsts = first_occurrences(queries.offsets, queries.docs, hash_column(queries.docs))
    if firsts is None:
        return queries, 0
    rows = np.unique(spread(queries.offsets)[~firsts])
    places = places_of(queries.offsets, rows)
    docs = queries.docs.take(pa.array(places)).dictionary_encode().indices.to_numpy()
    lists, values = spread(queries.offsets)[places], queries.values[places]
    order = np.lexsort((values, docs, lists))  # stable, so the earliest of equal lines comes first
    same = (np.diff(lists[order]) == 0) & (np.diff(docs[order]) == 0) & (np.diff(values[order]) == 0)
    copies = places[order[1:][same]]
    keep = np.ones(len(queries.docs), np.bool_)
    keep[copies] = False
    return (queries.kept(keep), len(copies)) if len(copies) else (queries, 0)


def order_lists(queries: Queries, ties: str) -> tuple[Ints, dict[str, int]]:
    """The entries of all lists, best first, and how many lists have equal scores or ranks that contradict them."""
    lists = spread(queries.offsets)
    with np.errstate(over="ignore"):  # what is too large for float32 is equal there: trec_eval has it so
        scores = queries.values.astype(np.float32) if ties == "trec" else queries.values
    order = _by_score(lists, scores)
    ranked = scores[order]
    tied = (lists[1:] == lists[:-1]) & (ranked[1:] == ranked[:-1])
    seen = {"tied_lists": len(np.unique(lists[1:][tied]))}
    if queries.ranks is not None:
        seen["rank_against_score"] = _contradicted(lists, scores, queries.ranks)
    if ties == "given":
        return np.arange(len(lists)), seen
    if tied.any():
        # Only entries that tie are compared by their ids: sorting texts is what costs.
        runs = np.cumsum(np.concatenate(([True], ~tied)))
        among = np.flatnonzero(np.concatenate(([False], tied)) | np.concatenate((tied, [False])))
        table = pa.table({"run": runs[among], "doc": queries.docs.take(pa.array(order[among])).cast(pa.binary())})
        keys = [("run", "ascending"), ("doc", "descending")]
        order[among] = order[among][pc.sort_indices(table, sort_keys=keys).to_numpy()]
    return order, seen


def as_lists(queries: Queries, order: Ints) -> pa.RecordBatch:
    """Outputs as the contract has them."""
    entries = pa.StructArray.from_arrays(
        [queries.docs.take(pa.array(order)), pa.array(queries.values[order])], ["id", "score"]
    )
    return pa.RecordBatch.from_arrays([queries.sample_ids, list_column(queries.offsets, entries)], ["id", "retrieved"])


def as_maps(queries: Queries) -> pa.RecordBatch:
    """Samples as the contract has them. A document that is graded twice stays so: that is for `parse` to refuse."""
    offsets = pa.array(queries.offsets, pa.int32())
    gains = pa.MapArray.from_arrays(offsets, queries.docs, pa.array(queries.values))
    return pa.RecordBatch.from_arrays([queries.sample_ids, gains], ["id", "expected_output"])


def _by_score(lists: Ints, scores: npt.NDArray[Any]) -> Ints:
    """Entries by list, then score, highest first; equal ones as they stand. Most runs are written in that order."""
    if ((lists[1:] != lists[:-1]) | (scores[1:] <= scores[:-1])).all():
        return np.arange(len(lists))
    return np.lexsort((-scores, lists))


def _contradicted(lists: Ints, scores: npt.NDArray[Any], ranks: Floats) -> int:
    """How many lists put a lower score at a better rank. Ranks that are equal, or no numbers, claim nothing."""
    within = lists[1:] == lists[:-1]
    if not (within & ((scores[1:] > scores[:-1]) | (ranks[1:] < ranks[:-1]))).any():
        return 0
    order = np.lexsort((ranks, -scores, lists))
    worse = within & (ranks[order][1:] < ranks[order][:-1])
    return len(np.unique(lists[1:][worse]))
