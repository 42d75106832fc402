"""The standard meaning of every metric, once more, for one ranking at a time in plain Python.

Slow and obvious on purpose, and shares no code with the metrics. Gold is an id → gain dict, a list of ids, or a list of
groups of ids. None stands for undefined: nothing in the gold is relevant.
"""

import math
import unicodedata
from collections.abc import Callable

Gold = dict[str, float] | list[str] | list[list[str]]


def value(name: str, gold: Gold, retrieved: list[str], k: int | None = None, **params: float | str) -> float | None:
    """The metric's value for one ranking; k None reads all of it."""
    ranked = without_repeats(retrieved)
    gains = gains_of(gold)
    least = params.get("rel")
    wanted = {doc for doc, gain in gains.items() if (gain > 0 if least is None else gain >= least)}
    if not wanted:
        return None
    groups = [set(group) & wanted for group in groups_of(gold) if set(group) & wanted]
    top = ranked if k is None else ranked[:k]
    places = len(ranked) if k is None else k
    return ORACLE[name](Case(gains, wanted, groups, ranked, top, places, k, params))


class Case:
    def __init__(self, gains, wanted, groups, ranked, top, places, k, params):
        self.gains, self.wanted, self.groups = gains, wanted, groups
        self.ranked, self.top, self.places, self.k, self.params = ranked, top, places, k, params


def hit(case):
    for doc in case.top:
        if doc in case.wanted:
            return 1.0
    return 0.0


def recall(case):
    found = 0
    for group in case.groups:
        if any(doc in group for doc in case.top):
            found += 1
    return found / len(case.groups)


def recall_all(case):
    return 1.0 if recall(case) == 1.0 else 0.0


def precision(case):
    if case.places == 0:
        return 0.0
    return len([doc for doc in case.top if doc in case.wanted]) / case.places


def f1(case):
    p, r = precision(case), recall(case)
    return 0.0 if p + r == 0 else min(2 * p * r / (p + r), 1.0)


def mrr(case):
    for rank, doc in enumerate(case.top, 1):
        if doc in case.wanted:
            return 1 / rank
    return 0.0


def average_precision(case):
    found, total = 0, 0.0
    for rank, doc in enumerate(case.top, 1):
        if doc in case.wanted:
            found += 1
            total += found / rank
    return min(total / len(case.wanted), 1.0)


def ndcg(case):
    best = sorted(case.gains.values(), reverse=True)
    if case.k is not None:
        best = best[: case.k]
    got = [case.gains.get(doc, 0) for doc in case.top]
    return min(dcg(got, case) / dcg(best, case), 1.0)


def dcg(gains, case):
    # A loop and not sum(): from Python 3.12 on, sum() of floats carries a correction term.
    total = 0.0
    for rank, gain in enumerate(gains, 1):
        if gain > 0:
            total += (2.0**gain - 1 if case.params.get("gain") == "exp2" else gain) / math.log2(rank + 1)
    return total


def ndcg_any(case):
    best = [1] * len(case.wanted)
    if case.k is not None:
        best = best[: case.k]
    got = [1 if doc in case.wanted else 0 for doc in case.top]
    return min(dcg(got, case) / dcg(best, case), 1.0)


def r_precision(case):
    deep = len(case.wanted)
    return len([doc for doc in case.ranked[:deep] if doc in case.wanted]) / deep


def bpref(case):
    unwanted = {doc for doc, gain in case.gains.items() if gain >= 0 and doc not in case.wanted}
    total, above = 0.0, 0
    for doc in case.ranked:
        if doc in unwanted:
            above += 1
        elif doc in case.wanted and above == 0:
            total += 1.0
        elif doc in case.wanted:
            total += 1.0 - min(above, len(case.wanted)) / min(len(unwanted), len(case.wanted))
    return min(total / len(case.wanted), 1.0)


def rbp(case):
    p = case.params.get("p", 0.8)
    total = 0.0
    for rank, doc in enumerate(case.top, 1):
        if doc in case.wanted:
            total += p ** (rank - 1)
    return min((1.0 - p) * total, 1.0)


def judged(case):
    if case.places == 0:
        return 0.0
    return len([doc for doc in case.top if case.gains.get(doc, -1) >= 0]) / case.places


ORACLE: dict[str, Callable[[Case], float]] = {
    "hit": hit,
    "recall": recall,
    "recall_all": recall_all,
    "precision": precision,
    "f1": f1,
    "mrr": mrr,
    "map": average_precision,
    "ndcg": ndcg,
    "ndcg_any": ndcg_any,
    "r_precision": r_precision,
    "bpref": bpref,
    "rbp": rbp,
    "judged": judged,
    "coverage": hit,
}


def containment(answer: str, texts: list[str | None], k: int | None, case_sensitive: bool = False) -> float | None:
    """Of texts in place of ids, so it stands apart from the others."""
    needle = words_of(answer, case_sensitive)
    if not needle:
        return None
    for text in texts if k is None else texts[:k]:
        if text is not None and needle in words_of(text, case_sensitive):
            return 1.0
    return 0.0


def words_of(text: str, case_sensitive: bool) -> str:
    blank = "".join(" " if unicodedata.category(c).startswith("Z") or c in "\t\n\v\f\r\x85" else c for c in text)
    joined = " ".join(word for word in blank.split(" ") if word)
    return joined if case_sensitive else joined.lower()


TEXT_ORACLE = {"containment": containment}

NO_ORACLE: dict[str, str] = {}
"""Metric → why it has none. A new metric is in one of the three tables, or a test fails."""


def without_repeats(retrieved: list[str]) -> list[str]:
    """The first of each id stays, before any cutoff."""
    kept: list[str] = []
    for doc in retrieved:
        if doc not in kept:
            kept.append(doc)
    return kept


def gains_of(gold: Gold) -> dict[str, float]:
    if isinstance(gold, dict):
        return gold
    return {doc: 1 for item in gold for doc in (item if isinstance(item, list) else [item])}


def groups_of(gold: Gold) -> list[list[str]]:
    if isinstance(gold, dict):
        return [[doc] for doc in gold]
    if any(isinstance(item, list) for item in gold):
        return [item if isinstance(item, list) else [item] for item in gold]
    return [[doc] for doc in without_repeats(gold)]
