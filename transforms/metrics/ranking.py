"""The ranking metrics: each a few lines over a block of judged rankings, one value a sample, NaN = undefined.

A value must not depend on the block it was computed in, down to the last bit. So whatever is added up along a ranking
is added by `np.bincount`, which is a plain loop in the order of the entries (by rank); logarithms and powers come from
tables filled by `math`, because numpy's vectorised ones may round differently; and all else is a division or a product
of two numbers, which IEEE fixes.

Relevant means gain > 0, or gain >= `rel` where one is given (the catalogue lets only `rel` > 0 through). A negative
gain says that nobody judged the document, as in TREC's qrels.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..records import Bools, Floats, Ints
from .judged import WHOLE, Cutoff, Judged

Rel = float | None


@dataclass(frozen=True)
class Dcg:
    """What a normalised DCG is made of. The defaults are the textbook's."""

    ideal: Literal["gold", "relevant", "listed", "retrieved"] = "gold"
    """The best ranking: of the gold's gains; or of ones, as many as the gold holds relevant documents, as it lists with
    its repeats (cut to the list's length, too), or as the whole list holds relevant entries."""
    below_zero: bool = False
    """Whether negative gains count, on both sides."""
    level_start: bool = False
    """Whether ranks 1 and 2 weigh the same: log2(rank) from rank 2 on, in place of log2(rank + 1)."""
    bounded: bool = True
    """Whether the value is kept within 0 and 1."""
    one_for_nothing: bool = False
    """Whether nothing found where the ideal is 0 is a perfect score."""


TEXTBOOK = Dcg()
BINARY = Dcg(ideal="relevant")


def hit(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """1 if anything relevant stands in the first k ranks, else 0. TREC calls this success."""
    return ratio(np.minimum(hits(judged, k, rel), 1), 1, relevant(judged, rel))


def recall(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """Share of what was wanted that the first k ranks hold.

    A group is found when any of its documents is; a gold without groups has one group for each document.
    """
    found, wanted = groups(judged, k, rel)
    return ratio(found, wanted, wanted)


def recall_all(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """1 if the first k ranks hold everything that was wanted (of each group, one document), else 0."""
    found, wanted = groups(judged, k, rel)
    return ratio(found == wanted, 1, wanted)


def precision(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """Relevant documents in the first k ranks, over k even if the list is shorter.

    Without a cutoff, over the list's length. An empty list scores 0. Every member of a group counts.
    """
    return ratio(hits(judged, k, rel), depth(judged, k), relevant(judged, rel))


def f1(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """Harmonic mean of precision and recall at the same cutoff; 0 if both are.

    With grouped gold, recall counts groups and precision documents, as each does alone.
    """
    p, r = precision(judged, k, rel), recall(judged, k, rel)
    return ratio(2 * p * r, p + r, relevant(judged, rel))


def mrr(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """1 / rank of the first relevant document; 0 if the first k ranks hold none. (The mean comes with pooling.)"""
    seen = is_relevant(judged.gain, rel) & within(judged, k)
    rows, ranks = judged.row[seen], judged.rank[seen]
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    first = np.zeros(judged.n, np.int64)
    first[rows[firsts]] = ranks[firsts]
    return ratio(np.minimum(first, 1), first, relevant(judged, rel))


def average_precision(judged: Judged, k: Cutoff, rel: Rel = None, most: float = 1.0) -> Floats:
    """Precision at each relevant rank within k, summed, over all relevant documents: those past k too, as trec_eval."""
    seen = is_relevant(judged.gain, rel) & within(judged, k)
    at_rank = running(seen, judged.row, judged.n)[seen] / judged.rank[seen]
    wanted = relevant(judged, rel)
    return ratio(added(judged.row[seen], at_rank, judged.n), wanted, wanted, most)


def ndcg(judged: Judged, k: Cutoff, gain: str = "linear", rule: Dcg = TEXTBOOK) -> Floats:
    """Gains over log2(rank + 1), summed down to k, over the same sum of the best possible ranking.

    The best ranking is made of all gains of the gold, cut to k. Gains of 0 and below add nothing on either side. What
    other systems do in place of that, the rule says.
    """
    seen = within(judged, k) if rule.below_zero else (judged.gain > 0) & within(judged, k)
    weights = worth(judged.gain[seen], gain) / discount(judged.rank[seen], rule.level_start)
    dcg = added(judged.row[seen], weights, judged.n)
    ideal = best_dcg(judged, k, gain, rule)
    share = np.divide(dcg, ideal, out=np.zeros(judged.n), where=(ideal != 0) if rule.one_for_nothing else (ideal > 0))
    if rule.bounded:
        share = np.clip(share, 0.0, 1.0)
    if rule.one_for_nothing:
        return np.where((ideal == 0) & (dcg == 0), 1.0, share)
    known = counted(judged.gold_row, judged.n) if rule.below_zero else relevant(judged, None)
    return np.where(known > 0, share, np.nan)


def ndcg_any(judged: Judged, k: Cutoff, rel: Rel = None, rule: Dcg = BINARY) -> Floats:
    """nDCG that asks only whether an entry is relevant, not how much: any relevant one weighs 1."""
    wanted = is_relevant(judged.gold_gain, rel)
    entries = is_relevant(judged.gain, rel)
    binary = replace(judged, gain=entries.astype(np.float64), gold_gain=wanted.astype(np.float64))
    return ndcg(binary, k, rule=rule)


def r_precision(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """Precision at rank R, where R is the number of relevant documents. It sets its own depth: k is not read."""
    wanted = relevant(judged, rel)
    return ratio(hits(judged, wanted, rel), wanted, wanted)


def bpref(judged: Judged, k: Cutoff, rel: Rel = None) -> Floats:
    """Mean over the R relevant documents of 1 - min(n, R) / min(N, R); one not retrieved adds 0. k is not read.

    N counts the documents judged and not relevant (gain 0, or below `rel`), n those of them that rank above the
    relevant one: trec_eval's form, with min(N, R) below the line, not the first paper's R.
    """
    is_hit, is_miss = is_relevant(judged.gain, rel), is_nonrelevant(judged.gain, rel)
    wanted = relevant(judged, rel)
    unwanted = counted(judged.gold_row[is_nonrelevant(judged.gold_gain, rel)], judged.n)
    rows = judged.row[is_hit]
    above = np.minimum(running(is_miss, judged.row, judged.n)[is_hit], wanted[rows])
    # max(…, 1): with nothing judged non-relevant nothing can rank above, and 0 / 1 is the 0 that trec_eval takes.
    share = 1.0 - above / np.maximum(np.minimum(wanted, unwanted), 1)[rows]
    return ratio(added(rows, share, judged.n), wanted, wanted)


def rbp(judged: Judged, k: Cutoff, p: float = 0.8, rel: Rel = None) -> Floats:
    """Rank-biased precision: (1 - p) times the sum of p^(rank - 1) over the relevant ranks; relevance is binary."""
    seen = is_relevant(judged.gain, rel) & within(judged, k)
    met = added(judged.row[seen], power(p, judged.rank[seen] - 1), judged.n)
    return ratio((1.0 - p) * met, 1, relevant(judged, rel))


def judged_share(judged: Judged, k: Cutoff) -> Floats:
    """Documents in the first k ranks that somebody judged (gain >= 0), over k even if the list is shorter.

    Without a cutoff, over the list's length. An empty list scores 0.
    """
    seen = (judged.gain >= 0) & within(judged, k)
    return ratio(counted(judged.row[seen], judged.n), depth(judged, k), relevant(judged, None))


# What the metrics are made of.


def ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any] | int, wanted: Ints, most: float = 1.0) -> Floats:
    """part / whole; 0 over nothing; never above `most`. NaN, the one sign for undefined, where nothing was wanted.

    The cap at 1 is against rounding only: a sum of shares may pass 1 in its last bit.
    """
    share = np.divide(part, whole, out=np.zeros(len(wanted)), where=np.not_equal(whole, 0))
    return np.where(wanted > 0, np.minimum(share, most), np.nan)


def best_dcg(judged: Judged, k: Cutoff, gain: str, rule: Dcg) -> Floats:
    """Sample → the DCG of the ranking that the rule holds for the best."""
    if rule.ideal == "gold":
        place = running(np.ones(len(judged.gold_row), np.bool_), judged.gold_row, judged.n)
        best = place <= k[judged.gold_row]
        if not rule.below_zero:
            best &= judged.gold_gain > 0
        weights = worth(judged.gold_gain[best], gain) / discount(place[best], rule.level_start)
        return added(judged.gold_row[best], weights, judged.n)
    if rule.ideal == "relevant":
        ones = relevant(judged, None)
    elif rule.ideal == "listed":
        ones = np.minimum(judged.listed, judged.length)
    else:
        ones = counted(judged.row[judged.gain > 0], judged.n)
    ones = np.minimum(ones, k)
    return _full_dcgs(_room(ones), rule.level_start)[ones]


def is_relevant(gain: Floats, rel: Rel) -> Bools:
    return gain > 0 if rel is None else gain >= rel


def is_nonrelevant(gain: Floats, rel: Rel) -> Bools:
    """Judged, and found not relevant. A negative gain is no judgement."""
    return (gain >= 0) & ~is_relevant(gain, rel)


def relevant(judged: Judged, rel: Rel) -> Ints:
    """Sample → how many documents of its gold are relevant."""
    return counted(judged.gold_row[is_relevant(judged.gold_gain, rel)], judged.n)


def hits(judged: Judged, k: Cutoff, rel: Rel) -> Ints:
    """Sample → how many relevant documents its first k ranks hold."""
    return counted(judged.row[is_relevant(judged.gain, rel) & within(judged, k)], judged.n)


def groups(judged: Judged, k: Cutoff, rel: Rel) -> tuple[Ints, Ints]:
    """Sample → how many relevant groups its first k ranks touch; and how many there are."""
    wanted = is_relevant(judged.group_gain, rel)
    found = wanted & (judged.group_rank > 0) & (judged.group_rank <= k[judged.group_row])
    return counted(judged.group_row[found], judged.n), counted(judged.group_row[wanted], judged.n)


def within(judged: Judged, k: Cutoff) -> Bools:
    """Entry → does it stand in the first k ranks of its sample?"""
    return judged.rank <= k[judged.row]


def depth(judged: Judged, k: Cutoff) -> Ints:
    """Sample → the ranks that a share is taken of: k, or the whole list's length."""
    return np.where(k == WHOLE, judged.length, k)


def counted(rows: Ints, n: int) -> Ints:
    return np.bincount(rows, minlength=n)


def added(rows: Ints, amounts: Floats, n: int) -> Floats:
    """Sample → the sum of its amounts, from the first to the last. Not np.sum: that adds pairwise."""
    # astype changes nothing; numpy's stubs say integers.
    return np.bincount(rows, weights=amounts, minlength=n).astype(np.float64, copy=False)


def running(mask: Bools, rows: Ints, n: int) -> Ints:
    """Entry → how many entries of its sample, up to and with itself, are in the mask."""
    so_far = np.cumsum(mask)
    in_sample = counted(rows[mask], n)
    return so_far - (np.cumsum(in_sample) - in_sample)[rows]


def worth(gains: Floats, form: str) -> Floats:
    """What a gain adds to a DCG: itself, or 2^gain - 1.

    Absurd gains are capped, so that no sum over a list becomes infinite and the quotient stays a number.
    """
    if form == "linear":
        return np.clip(gains, -1e300, 1e300)
    exponents = np.minimum(gains, 900.0)
    powers = np.ldexp(1.0, exponents.astype(np.int32))
    broken = np.flatnonzero(exponents != np.floor(exponents))
    powers[broken] = [math.exp2(exponent) for exponent in exponents[broken].tolist()]
    return powers - 1.0


def discount(ranks: Ints, level_start: bool = False) -> Floats:
    """Rank → log2(rank + 1); with a level start, that of the rank before, ranks 1 and 2 alike."""
    return _logarithms(_room(ranks))[np.maximum(ranks - 1, 1) if level_start else ranks]


def power(p: float, exponents: Ints) -> Floats:
    """Exponent → p to it."""
    return _powers(p, _room(exponents))[exponents]


def _room(indices: Ints) -> int:
    """A power of two past the largest index: few sizes, so that a table is built few times and read often."""
    return 1 << max(10, int(indices.max(initial=0)).bit_length())


@lru_cache(maxsize=32)
def _logarithms(size: int) -> Floats:
    return np.array([math.log2(rank + 1) for rank in range(size)])


@lru_cache(maxsize=32)
def _full_dcgs(size: int, level_start: bool) -> Floats:
    """How many ones there are, up to `size` → the DCG of a list of so many."""
    weights = 1.0 / discount(np.arange(1, size + 1), level_start)
    return np.concatenate((np.zeros(1), np.cumsum(weights)))


@lru_cache(maxsize=32)
def _powers(p: float, size: int) -> Floats:
    return np.array([p**exponent for exponent in range(size)])
