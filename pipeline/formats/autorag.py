"""AutoRAG's qa.parquet as samples: its columns under the contract's names."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from transforms.columns import is_list, list_parts
from transforms.limits import BrokenInput, Limits
from transforms.records import Columns, Lines, Refused, Rows

from . import parquet

COLUMNS = ("qid", "query", "retrieval_gt", "generation_gt", "metadata")


def peek(path: str) -> None:
    names(path)


def names(path: str) -> tuple[str, ...]:
    """The contract's columns that the file has, under AutoRAG's names."""
    held = parquet.names(path)
    for name in ("qid", "retrieval_gt"):
        if held.count(name) != 1:
            raise BrokenInput(path, f"expected one column `{name}`, found {' '.join(held) or 'none'}")
    return tuple(name for name in COLUMNS if name in held)


def read(
    path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None
) -> Iterator[Lines | Rows | Columns | Refused]:
    """Samples with `retrieval_gt` as what is expected, and the first `generation_gt` as the answer."""
    names(path)
    for block in parquet.read(path, limits, block_rows, COLUMNS):
        yield Columns(block.first, as_samples(block.batch)) if isinstance(block, Columns) else block


def as_samples(qa: pa.RecordBatch) -> pa.RecordBatch:
    given = dict(zip(qa.schema.names, qa.columns, strict=True))
    columns = {"id": given["qid"], "expected_output": given["retrieval_gt"]}
    if "query" in given:
        columns["input"] = pa.StructArray.from_arrays([given["query"]], ["question"])
    if "generation_gt" in given:
        columns["answer"] = _first(given["generation_gt"])
    if "metadata" in given:
        columns["metadata"] = given["metadata"]
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _first(answers: pa.Array) -> pa.Array:
    """The first of several answers, null where there is none; a single answer stays what it is."""
    if not is_list(answers.type):
        return answers
    offsets, items = list_parts(answers)
    none = offsets[1:] == offsets[:-1]
    return items.take(pa.array(offsets[:-1], mask=none)) if len(items) else pa.nulls(len(answers), pa.string())
