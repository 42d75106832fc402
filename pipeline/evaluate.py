"""The same scores without Beam, for notebooks and tests: one call, in memory, the very same steps."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from transforms.dialects import DIALECTS
from transforms.join import fold, join
from transforms.ledger import build_ledger
from transforms.limits import BrokenInput
from transforms.parse import Parsed, Source, Wants, parse_outputs, parse_samples
from transforms.pool import pool_rows
from transforms.records import PER_SAMPLE, REJECTED, Columns, Rows, output_block, sample_block
from transforms.score import count_rows, score

from .errors import ContractError, UsageError
from .graph import scoring, wants
from .plan import make_plan
from .sinks import metric_rows

Records: TypeAlias = "Iterable[Mapping[str, Any]] | pa.Table"

_BLOCK_ROWS = 1 << 16
_SAMPLES, _OUTPUTS = Source("samples", 0, "samples"), Source("outputs", 1, "outputs")


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation gave: `rows` and `summary` as the job writes them, `rejected` and `ledger` beside them."""

    rows: pa.Table
    summary: pa.Table
    rejected: pa.Table
    ledger: dict[str, Any]


def evaluate(
    samples: Records,
    outputs: Records,
    metrics: str | Iterable[str] | None = None,
    dialect: str = "standard",
    k: int = 5,
    slice_by: str | Iterable[str] = (),
    missing: str = "zero",
) -> Evaluation:
    """Score `outputs` against `samples`, each a list of dicts, an Arrow table or a data frame.

    No record makes it raise: bad ones are in `rejected` and in the ledger, as in a run. What was asked can: an unknown
    metric or dialect is a `UsageError`; a table without the columns that it needs, and `missing="fail"` with a missing
    output, are a `ContractError`.
    """
    asked = {"metrics": metrics, "dialect": dialect, "k": k, "slice_by": slice_by or None, "missing": missing}
    plan = make_plan({name: _listed(value) for name, value in asked.items()}, {}, require=())
    wanted = wants(plan)
    left = _parse(samples, _SAMPLES, wanted)
    right = _parse(outputs, _OUTPUTS, wanted)
    joined, conflicts, terms = join(
        fold(_block(left, sample_block(wanted.slice_by, wanted.texts))),
        fold(_block(right, output_block(wanted.texts))),
        (_SAMPLES, _OUTPUTS),
        DIALECTS[plan.dialect].keeps_flawed,
    )
    rows = score(joined, scoring(plan))
    by_status = count_rows(rows)
    turned_away = [*(parsed.rejected for parsed in (*left, *right)), *conflicts]
    rejected = pa.Table.from_batches([batch.cast(REJECTED) for batch in turned_away if batch is not None], REJECTED)
    table = metric_rows(rows, plan.metrics).cast(PER_SAMPLE)
    written = {found["values"]: found["counts"] for found in table["status"].value_counts().to_pylist()}
    total = sum((parsed.terms for parsed in (*left, *right)), terms + by_status)
    ledger = build_ledger(total, {**written, "rejected": rejected.num_rows}, len(plan.metrics))
    if plan.missing == "fail" and ledger["samples"]["missing"]:
        raise ContractError(f"{ledger['samples']['missing']} samples have no usable output, and missing is 'fail'")
    return Evaluation(
        table,
        pool_rows([rows], plan.metrics, plan.slice_by, places=DIALECTS[plan.dialect].places),
        rejected,
        ledger,
    )


def _parse(records: Records, source: Source, wanted: Wants) -> list[Parsed]:
    parse = parse_samples if source is _SAMPLES else parse_outputs
    try:
        return [parse(raw, source, wanted) for raw in _raw_blocks(records)]
    except BrokenInput as broken:
        raise ContractError(str(broken)) from None


def _raw_blocks(records: Records) -> Iterator[Columns | Rows]:
    # Data frames of pandas and polars offer themselves as Arrow; as an iterable they are their columns' names.
    if not hasattr(records, "__arrow_c_stream__") and not isinstance(records, pa.RecordBatch):
        if (
            isinstance(records, (str, bytes, Mapping))
            or not isinstance(records, Iterable)
            or hasattr(records, "to_dict")
        ):
            found = type(records).__name__
            raise UsageError(f"samples and outputs are lists of dicts, Arrow tables or data frames; found {found}")
        listed: list[Any] = list(records)
        yield Rows(list(range(1, len(listed) + 1)), listed)
        return
    # Chunk by chunk, never joined: not every layout can be, and each may have a dictionary of its own.
    table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else pa.table(records)
    first = 1
    for batch in table.to_batches(_BLOCK_ROWS) or [pa.RecordBatch.from_pylist([], table.schema)]:
        yield Columns(first, batch)
        first += batch.num_rows


def _block(parsed: list[Parsed], schema: pa.Schema) -> pa.RecordBatch:
    blocks = [each.block for each in parsed if each.block is not None]
    return pa.concat_batches(blocks) if blocks else pa.RecordBatch.from_pylist([], schema)


def _listed(value: Any) -> Any:
    """What can be gone through only once, as a list; anything else as it is, for the plan to judge."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value
