"""Metric rows from joined samples, a block at a time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import TaggedOutput

from .dialects import DIALECTS, Dialect, Matching, matching, measure
from .join import Joined
from .judge import judge
from .ledger import PROGRESS
from .metrics.catalog import Metric
from .metrics.judged import WHOLE, Judged
from .records import STATUS_NAMES, Codes, Floats, MetricRows, Status

MAIN, TERMS_TAG = "rows", "terms"


@dataclass(frozen=True)
class Scoring:
    """Everything that a score depends on besides the records."""

    metrics: tuple[Metric, ...]
    k: int
    dialect: str
    missing: str
    slice_by: tuple[str, ...] = ()


@dataclass
class ScoreSamples(beam.PTransform):
    """Every sample of every joined block through every metric of the plan."""

    scoring: Scoring

    def expand(self, joined: beam.PCollection) -> Any:
        return joined | "Score" >> beam.ParDo(_ScoreBlockFn(self.scoring)).with_outputs(TERMS_TAG, main=MAIN)


class _ScoreBlockFn(beam.DoFn):
    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring

    def process(self, joined: Joined) -> Iterator[MetricRows | TaggedOutput[Literal["terms"], tuple[str, int]]]:
        rows = score(joined, self._scoring)
        terms = count_rows(rows)
        PROGRESS.add(terms)
        for term in terms.items():
            yield TaggedOutput(TERMS_TAG, term)
        yield rows


def score(joined: Joined, scoring: Scoring) -> MetricRows:
    """The metric rows of a joined block."""
    dialect = DIALECTS[scoring.dialect]
    judgements: dict[tuple[Matching, bool], Judged] = {}
    n = joined.samples.num_rows
    shape = len(scoring.metrics), n
    values, k = np.empty(shape), np.zeros(shape, np.int32)
    own_k = joined.samples["k"].to_numpy().astype(np.int64)
    resolved = np.where(own_k > 0, own_k, scoring.k)
    for m, metric in enumerate(scoring.metrics):
        cutoff = resolved if metric.cutoff == "k" else np.full(n, metric.cutoff or WHOLE)
        if metric.cutoff is not None:
            k[m] = cutoff
        judged = _judgement(joined, dialect, metric, judgements)
        values[m] = measure(dialect, metric)(judged, cutoff)
    status = settle(values, joined.outcome, dialect, scoring.missing, spoilt(joined, dialect))
    slices = {name: joined.samples[f"slice:{name}"] for name in scoring.slice_by}
    return MetricRows(joined.samples["sample_id"], joined.outcome, values, status, k, slices)


def _judgement(
    joined: Joined, dialect: Dialect, metric: Metric, judgements: dict[tuple[Matching, bool], Judged]
) -> Judged:
    """What the metric looks at: judged once for all metrics that look alike."""
    how = matching(dialect, metric)
    if (how, False) not in judgements:
        judgements[how, False] = judge(joined, dialect, how)
    flat = dialect.relevant == "listed" and metric.name not in dialect.graded
    if (how, flat) not in judgements:
        judgements[how, flat] = judgements[how, False].flat()
    return judgements[how, flat]


def spoilt(joined: Joined, dialect: Dialect) -> Codes:
    """Sample → the status that leaves it without values in the dialect whatever the metric; SCORED for the others."""
    found = np.full(len(joined.outcome), Status.SCORED, np.int8)
    if dialect.empty_list == "undefined":
        found[joined.owner[(joined.outputs["length"].to_numpy() == 0) & (joined.owner >= 0)]] = Status.BAD_OUTPUT
    if dialect.keeps_flawed:
        error = dialect.flaws == "error"
        found[joined.outcome == Status.BAD_OUTPUT] = Status.ERROR if error else Status.BAD_OUTPUT
        found[joined.samples["defect"].to_numpy() != 0] = Status.ERROR if error else Status.NO_RELEVANT
    return found


def settle(values: Floats, outcome: Codes, dialect: Dialect, missing: str, spoilt: Codes | None = None) -> Codes:
    """Give every row its status, and every row without a score the value that its status implies (in place).

    Nothing relevant comes first: such a row is undefined for every system alike, whether or not it answered.
    """
    undefined = np.isnan(values)
    status = np.broadcast_to(outcome, values.shape).copy()
    values[~undefined & (outcome != Status.SCORED)] = 0.0
    if dialect.no_relevant is not None:
        values[undefined] = dialect.no_relevant
    else:
        status[undefined] = Status.ERROR if dialect.flaws == "error" else Status.NO_RELEVANT
    if spoilt is not None and spoilt.any():
        where = (spoilt != Status.SCORED) & (status != Status.NO_RELEVANT)
        status[where] = np.broadcast_to(spoilt, status.shape)[where]
        values[:, spoilt != Status.SCORED] = np.nan
    if missing == "skip":
        values[status == Status.MISSING_OUTPUT] = np.nan
    return status


def count_rows(rows: MetricRows) -> Counter[str]:
    """Metric rows by status, as terms of the ledger."""
    counts = np.bincount(rows.status.ravel(), minlength=len(STATUS_NAMES))
    return Counter({f"rows.{name}": int(c) for name, c in zip(STATUS_NAMES, counts, strict=True) if c})
