"""The conventions by which the same ranking gets different numbers, as data.

A dialect is a record of conventions; the steps read it where the convention bites: parse, rank, judge, score and pool.
Only where a system defines a metric in a way of its own does it bring a function (`metrics/elsewhere.py`). Choosing a
dialect is the plan's business; the spelling of a metric never does it.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from .metrics import elsewhere
from .metrics.catalog import CATALOG, Metric
from .metrics.judged import Cutoff, Judged
from .metrics.ranking import Dcg, ndcg, ndcg_any
from .records import Floats


class UnknownDialect(ValueError):
    """A word that names no dialect, or a metric that the dialect does not have. The message is one line."""


class Matching(NamedTuple):
    """What it takes for an entry to be a document of the gold.

    `id`: the same id. `chunk`: a piece of the gold text, by REMem's rule. `fuzzy`: a text that is like the gold text.
    `span`: a text that holds the sample's answer, which then is all the gold there is.
    """

    how: Literal["id", "chunk", "fuzzy", "span"] = "id"
    threshold: float = 0.0
    case_sensitive: bool = False


BY_ID = Matching()


@dataclass(frozen=True)
class Dialect:
    name: str
    title: str
    no_relevant: float | None
    """What a sample scores whose gold holds nothing relevant; None: undefined, a null outside the mean."""
    metrics: tuple[str, ...]
    """Names of the catalogue that have a meaning in this dialect."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """Metric → how it differs from the standard, in a phrase; those that only follow the title have none."""
    params: tuple[str, ...] = ()
    """Parameters of metrics that the dialect knows."""
    repeats: Literal["first", "every"] = "first"
    """Whether an id repeated in a list counts once, at its first rank, or each time, at its own."""
    relevant: Literal["gain", "listed"] = "gain"
    """Whether gains of 0 and below say "not relevant", or to be named in the gold is enough."""
    flat_gold: Literal["each", "one_group"] = "each"
    """Whether a gold without groups wants each of its documents, or any one."""
    empty_group: Literal["ignored", "spoils"] = "ignored"
    """Whether a group without members is passed over, or leaves the sample without a gold."""
    empty_list: Literal["zero", "undefined"] = "zero"
    flaws: Literal["rejected", "error", "undefined"] = "rejected"
    """A body that cannot be read: rejected (a bad output scores 0, a bad gold is not scored), or rows of null, with
    status `error` or with the status of an undefined value."""
    strict_gold: bool = False
    """Whether an empty gold, groups, and integers as document ids are flaws as well."""
    chunks: tuple[str, ...] = ()
    """Metrics that find gold texts by their chunks."""
    whole_list: tuple[str, ...] = ()
    """Metrics that read the whole list whatever their cutoff."""
    blank_answer: Literal["undefined", "matches"] = "undefined"
    """What an answer of nothing but white space is; in the second case plain ASCII blanks are still no answer."""
    graded: tuple[str, ...] = ("ndcg",)
    """Metrics that read gains even where to be listed is to be relevant."""
    kernels: Mapping[str, Callable[..., Floats]] = field(default_factory=dict)
    """Metric → its function, where it is not the catalogue's."""
    places: int | None = None
    """Decimal places that pooled means are rounded to."""

    @property
    def keeps_flawed(self) -> bool:
        """Whether a record with a good id and a flawed body goes on to rows of its own."""
        return self.flaws != "rejected"


STANDARD = Dialect(
    name="standard",
    title="textbook definitions; a sample with nothing relevant has no score",
    no_relevant=None,
    metrics=tuple(CATALOG),
    params=("rel", "gain", "p", "match", "threshold", "case_sensitive"),
)
TREC = Dialect(
    name="trec",
    title="as trec_eval -c: the standard, but a sample with nothing relevant scores 0 and counts",
    no_relevant=0.0,
    metrics=STANDARD.metrics,
    params=STANDARD.params,
)
EVAL_HARNESS = Dialect(
    name="eval-harness",
    title="any listed id is relevant, gain 0 and below too; a record it refuses has null rows with status error",
    no_relevant=None,
    metrics=("hit", "recall", "mrr", "ndcg", "containment"),
    differs={
        "ndcg": "negative gains count, an ideal of 0 or below scores 0",
        "containment": "no answer is an error, a blank beyond ASCII is in any text",
    },
    params=("case_sensitive",),
    relevant="listed",
    flaws="error",
    strict_gold=True,
    blank_answer="matches",
    kernels={"ndcg": partial(ndcg, rule=Dcg(below_zero=True))},
)
REMEM = Dialect(
    name="remem",
    title="gold are original texts; repeats keep their ranks; an empty gold scores 0; means rounded to 4 places",
    no_relevant=0.0,
    metrics=("recall", "recall_all", "ndcg_any"),
    differs={
        "recall": "by equal ids, as sets",
        "recall_all": "by chunks of the gold texts, 0 if the gold lists one twice",
        "ndcg_any": "by chunks, ideal of the whole list retrieved, ranks 1 and 2 weigh the same",
    },
    repeats="every",
    relevant="listed",
    chunks=("recall_all", "ndcg_any"),
    whole_list=("ndcg_any",),
    kernels={
        "recall_all": elsewhere.recall_all_as_listed,
        "ndcg_any": partial(ndcg_any, rule=Dcg(ideal="retrieved", level_start=True)),
    },
    places=4,
)
AUTORAG = Dialect(
    name="autorag",
    title="gold is groups, a flat one is one group; a blank id, an empty group, gold or list leaves no score",
    no_relevant=None,
    metrics=("recall", "precision", "f1", "mrr", "map", "ndcg"),
    differs={
        "precision": "distinct hits over the list's length",
        "f1": "of its own precision",
        "mrr": "mean over the groups",
        "map": "mean over the groups, each over its hits found",
        "ndcg": "binary, repeats count again, ideal of the gold as listed cut to the list's length; can pass 1",
    },
    repeats="every",
    relevant="listed",
    flat_gold="one_group",
    empty_group="spoils",
    empty_list="undefined",
    flaws="undefined",
    graded=(),
    kernels={
        "precision": elsewhere.distinct_precision,
        "f1": elsewhere.distinct_f1,
        "mrr": elsewhere.mrr_over_groups,
        "map": elsewhere.map_over_groups,
        "ndcg": partial(ndcg, rule=Dcg(ideal="listed", bounded=False)),
    },
)
ADHDECODE = Dialect(
    name="adhdecode",
    title="any listed id is relevant; repeats keep their ranks; an empty gold scores 0",
    no_relevant=0.0,
    metrics=("hit", "mrr", "ndcg"),
    differs={"ndcg": "repeats count again, negative gains count, 1 where neither list nor ideal has any gain"},
    repeats="every",
    relevant="listed",
    kernels={"ndcg": partial(ndcg, rule=Dcg(below_zero=True, bounded=False, one_for_nothing=True))},
)
GENAI_TRAINING = Dialect(
    name="genai-training",
    title="any listed id is relevant; repeats count each time; an empty gold scores 0",
    no_relevant=0.0,
    metrics=("recall", "precision", "mrr", "map", "ndcg", "coverage"),
    differs={
        "recall": "repeats count again, can pass 1",
        "precision": "repeats count again",
        "map": "repeats count again, can pass 1",
        "ndcg": "repeats count again, negative gains count, can pass 1",
    },
    repeats="every",
    relevant="listed",
    kernels={
        "recall": elsewhere.recall_of_entries,
        "map": elsewhere.uncapped_average_precision,
        "ndcg": partial(ndcg, rule=Dcg(below_zero=True, bounded=False)),
    },
)

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (STANDARD, TREC, EVAL_HARNESS, REMEM, AUTORAG, ADHDECODE, GENAI_TRAINING)
}


def find(name: str) -> Dialect:
    """The dialect of that name."""
    if name in DIALECTS:
        return DIALECTS[name]
    close = difflib.get_close_matches(name.lower(), DIALECTS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(DIALECTS)}"
    raise UnknownDialect(f"unknown dialect {name[:40]!r}: {hint}")


def require(dialect: Dialect, metrics: Iterable[Metric]) -> None:
    """Refuse what the dialect does not have: its number would be ours under another system's name."""
    asked = tuple(metrics)
    lacking = sorted({metric.name for metric in asked} - set(dialect.metrics))
    if lacking:
        raise UnknownDialect(f"dialect {dialect.name} has no {', '.join(lacking)}; it has {', '.join(dialect.metrics)}")
    for metric in asked:
        params = dict(metric.params)
        for name in params:
            if name not in dialect.params:
                known = ", ".join(dialect.params) or "none"
                raise UnknownDialect(f"metric {metric}: dialect {dialect.name} has no parameter {name}; it has {known}")
        if "threshold" in params and "match" not in params:
            raise UnknownDialect(f"metric {metric}: threshold means nothing without match=fuzzy")


def measure(dialect: Dialect, metric: Metric) -> Callable[[Judged, Cutoff], Floats]:
    """The function of a metric in the dialect, its parameters filled in."""
    entry = CATALOG[metric.name]
    judging = {param.name for param in entry.params if param.judges}
    params = {name: value for name, value in metric.params if name not in judging}
    return partial(dialect.kernels.get(metric.name, entry.measure), **params)


def matching(dialect: Dialect, metric: Metric) -> Matching:
    """What finds a gold document for the metric."""
    params = dict(metric.params)
    if metric.name == "containment":
        return Matching("span", case_sensitive=bool(params.get("case_sensitive", False)))
    if params.get("match") == "fuzzy":
        return Matching("fuzzy", threshold=float(params.get("threshold", _DEFAULT_THRESHOLD)))
    return Matching("chunk") if metric.name in dialect.chunks else BY_ID


def deepest_rank(dialect: Dialect, metric: Metric) -> int | None:
    """The last rank that the metric reads, where that is known beforehand."""
    return metric.cutoff if isinstance(metric.cutoff, int) and metric.name not in dialect.whole_list else None


_DEFAULT_THRESHOLD = next(float(p.default) for p in CATALOG["recall"].params if p.name == "threshold" and p.default)
