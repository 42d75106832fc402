"""Metrics that another system defines in a way of its own. What is only a convention is in its dialect, not here.

In these systems to be named in the gold is to be relevant, so the rankings come here with every gain 1.
"""

import math

import numpy as np

from ..records import Floats, Ints
from .judged import WHOLE, Cutoff, Judged
from .ranking import added, average_precision, counted, groups, hits, ratio, recall, relevant, within


def recall_of_entries(judged: Judged, k: Cutoff) -> Floats:
    """Relevant entries of the first k ranks, each repeat counted, over the relevant documents: can pass 1."""
    wanted = relevant(judged, None)
    return ratio(hits(judged, k, None), wanted, wanted, math.inf)


def uncapped_average_precision(judged: Judged, k: Cutoff) -> Floats:
    """The textbook's, but of a list that keeps its repeats: can pass 1."""
    return average_precision(judged, k, most=math.inf)


def recall_all_as_listed(judged: Judged, k: Cutoff) -> Floats:
    """1 if as many distinct documents were found as the gold lists: never, if it lists one twice."""
    found, wanted = groups(judged, k, None)
    return ratio(found == judged.listed, 1, wanted)


def distinct_precision(judged: Judged, k: Cutoff) -> Floats:
    """Distinct relevant documents of the first k ranks over the entries there are: at most k, fewer in a short list."""
    found = counted(judged.row[judged.first & within(judged, k)], judged.n)
    return ratio(found, np.minimum(judged.length, k), relevant(judged, None))


def distinct_f1(judged: Judged, k: Cutoff) -> Floats:
    """Harmonic mean of distinct_precision and of recall by groups; 0 if both are."""
    p, r = distinct_precision(judged, k), recall(judged, k)
    return ratio(2 * (r * p), r + p, relevant(judged, None))


def mrr_over_groups(judged: Judged, k: Cutoff) -> Floats:
    """Mean over the groups of 1 / rank of the first member; a group that was not found adds 0."""
    found = (judged.group_rank > 0) & (judged.group_rank <= k[judged.group_row])
    total = added(judged.group_row[found], 1.0 / judged.group_rank[found], judged.n)
    wanted = counted(judged.group_row, judged.n)
    return ratio(total, wanted, wanted)


def map_over_groups(judged: Judged, k: Cutoff) -> Floats:
    """Mean over the groups of the precision at the ranks of members, divided by how many such ranks there are."""
    group, rank = _hits_of_groups(judged, k)
    size = len(judged.group_row)
    so_far = np.arange(len(group)) - np.searchsorted(group, group) + 1
    found = counted(group, size)
    each = np.divide(added(group, so_far / rank, size), found, out=np.zeros(size), where=found > 0)
    wanted = counted(judged.group_row, judged.n)
    return ratio(added(judged.group_row, each, judged.n), wanted, wanted)


def _hits_of_groups(judged: Judged, k: Cutoff) -> tuple[Ints, Ints]:
    """(group, rank) of every entry within k that is a member of the group: once each, by group, then by rank."""
    near = judged.match_rank <= k[judged.group_row[judged.match_group]]
    pairs = np.unique(judged.match_group[near] * WHOLE + judged.match_rank[near])
    group, rank = np.divmod(pairs, WHOLE)
    return group, rank
