"""The graph, on one page.

ReadSamples ─┬────────────┐                            ┌─ WriteMetricRows
        BuildSieve        ├─ JoinById ── ScoreSamples ─┼─ PoolMetrics ── WriteSummary
             └ ReadOutputs┘
      and from every step what it rejected (WriteRejected) and what it counted (WriteLedger)
"""

from typing import Any

import apache_beam as beam

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
    reading = Reading(wants(plan), plan.limits, plan.block_rows)
    samples = root | ReadSamples(inputs.samples, reading)
    outputs = root | ReadOutputs(inputs.outputs, reading, sieve(samples.blocks, inputs))
    sides: Any = {"samples": samples.blocks, "outputs": outputs.blocks}  # Beam gives dicts of collections a `|`
    joined = sides | JoinById(plan.buckets or buckets_for(inputs.size), reading.wants, inputs.sources)
    scored = joined.joined | ScoreSamples(scoring(plan))
    rows = scored.rows | WriteMetricRows(attempt_dir, plan.metrics)
    summary = scored.rows | PoolMetrics(plan.metrics, plan.slice_by) | WriteSummary(attempt_dir)
    rejects = (samples.rejected, outputs.rejected, joined.rejected) | "Rejects" >> beam.Flatten()
    rejected = rejects | WriteRejected(attempt_dir)

    ledger: Any = {
        "descriptors": (rows, summary, rejected) | "Files" >> beam.Flatten(),
        "terms": (samples.terms, outputs.terms, joined.terms, scored.terms) | "Terms" >> beam.Flatten(),
        "problems": (samples.problems, outputs.problems) | "Problems" >> beam.Flatten(),
    }
    _ = ledger | WriteLedger(attempt_dir)


def wants(plan: Plan) -> Wants:
    """What has to travel for the asked metrics: lists are cut where every metric stops at a rank known beforehand."""
    cutoffs = [metric.cutoff for metric in plan.metrics]
    fixed = [cutoff for cutoff in cutoffs if isinstance(cutoff, int)]
    return Wants(plan.slice_by, depth=max(fixed) if len(fixed) == len(cutoffs) else None)


def sieve(samples: beam.PCollection, inputs: Inputs) -> beam.PCollection | None:
    """The sieve of the gold, where one of a reasonable size would leave anything out."""
    order = order_for(sum(file.size for file in inputs.samples))
    return None if order is None else samples | BuildSieve(order)


def scoring(plan: Plan) -> Scoring:
    return Scoring(plan.metrics, plan.k, plan.dialect, plan.missing, plan.slice_by)


def buckets_for(size: int) -> int:
    """Buckets of some tens of MB: few enough to keep elements large, enough to keep one bucket in memory."""
    return max(1, min(_MOST_BUCKETS, -(-size // _BUCKET_BYTES)))
