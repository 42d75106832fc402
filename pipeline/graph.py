"""The graph, on one page.

ReadSamples ─┬────────────┐                            ┌─ WriteMetricRows
        BuildSieve        ├─ JoinById ── ScoreSamples ─┼─ PoolMetrics ── WriteSummary
             └ ReadOutputs┘
      and from every step what it rejected (WriteRejected) and what it counted (WriteLedger)
"""

from typing import Any

import apache_beam as beam

from transforms.dialects import BY_ID, DIALECTS, deepest_rank, matching
from transforms.join import JoinById
from transforms.parse import Wants
from transforms.pool import PoolMetrics
from transforms.score import ScoreSamples, Scoring
from transforms.sieve import BuildSieve, order_for

from .inputs import Inputs
from .plan import Plan
from .sinks import WriteLedger, WriteMetricRows, WriteRejected, WriteSummary
from .sources import Reading, ReadOutputs, ReadSamples

_BUCKET_BYTES = 32 << 20
_MOST_BUCKETS = 4096


def build(root: beam.Pipeline, plan: Plan, inputs: Inputs, attempt_dir: str) -> None:
    """Put the whole job on `root`."""
    grouping = plan.buckets or buckets_for(inputs.unpacked)
    reading = Reading(wants(plan), plan.limits, plan.block_rows, plan.ties, plan.fields, inputs.sources, grouping)
    samples = root | ReadSamples(inputs.samples, reading)
    outputs = root | ReadOutputs(inputs.outputs, reading, sieve(samples.blocks, inputs, reading.wants))
    sides: Any = {"samples": samples.blocks, "outputs": outputs.blocks}  # Beam gives dicts of collections a `|`
    joined = sides | JoinById(plan.buckets or buckets_for(inputs.size), reading.wants, inputs.sources)
    scored = joined.joined | ScoreSamples(scoring(plan))
    rows = scored.rows | WriteMetricRows(attempt_dir, plan.metrics)
    summary = scored.rows | pooling(plan) | WriteSummary(attempt_dir)
    rejects = (samples.rejected, outputs.rejected, joined.rejected) | "Rejects" >> beam.Flatten()
    rejected = rejects | WriteRejected(attempt_dir)

    ledger: Any = {
        "descriptors": (rows, summary, rejected) | "Files" >> beam.Flatten(),
        "terms": (samples.terms, outputs.terms, joined.terms, scored.terms) | "Terms" >> beam.Flatten(),
        "problems": (samples.problems, outputs.problems) | "Problems" >> beam.Flatten(),
    }
    _ = ledger | WriteLedger(attempt_dir)


def wants(plan: Plan) -> Wants:
    """What has to travel for the asked metrics: texts where one reads them, and lists down to the deepest rank read."""
    dialect = DIALECTS[plan.dialect]
    texts = any(matching(dialect, metric) != BY_ID for metric in plan.metrics)
    depths = [deepest_rank(dialect, metric) for metric in plan.metrics]
    known = [depth for depth in depths if depth is not None]
    return Wants(plan.slice_by, texts, max(known) if len(known) == len(depths) else None, plan.dialect, plan.limits)


def sieve(samples: beam.PCollection, inputs: Inputs, wanted: Wants) -> beam.PCollection | None:
    """The sieve of the gold, where one of a reasonable size would leave anything out. It knows ids, not texts."""
    if wanted.texts:
        return None
    order = order_for(sum(file.size for file in inputs.samples))
    return None if order is None else samples | BuildSieve(order)


def pooling(plan: Plan) -> PoolMetrics:
    return PoolMetrics(plan.metrics, plan.slice_by, places=DIALECTS[plan.dialect].places)


def scoring(plan: Plan) -> Scoring:
    return Scoring(plan.metrics, plan.k, plan.dialect, plan.missing, plan.slice_by)


def buckets_for(size: int) -> int:
    """Buckets of some tens of MB: few enough to keep elements large, enough to keep one bucket in memory."""
    return max(1, min(_MOST_BUCKETS, -(-size // _BUCKET_BYTES)))
