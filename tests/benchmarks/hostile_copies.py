"""A million copies of one id, equal or differing, on either side: what they are, and what must become of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FORMATS = ("jsonl", "parquet")
KINDS = ("clean", "equal", "differing")
OTHERS = 1_000
"""Ids that both sides have in every case, so that something joins beside the copies."""

_ROWS_AT_ONCE = 50_000


def write(folder: Path, side: str, kind: str, format: str, records: int) -> tuple[Path, Path]:
    """Samples and outputs; `side` has `records` of them, the other side one for each id that both have."""
    paths = {each: folder / f"{each}-{side}-{kind}-{records}.{format}" for each in ("samples", "outputs")}
    for each, path in paths.items():
        if not path.exists():
            _write(path, _blocks(each, kind if each == side else "clean", records if each == side else OTHERS + 1))
    return paths["samples"], paths["outputs"]


def _blocks(side: str, kind: str, records: int) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, records, _ROWS_AT_ONCE):
        yield [_record(side, kind, i) for i in range(first, min(first + _ROWS_AT_ONCE, records))]


def _record(side: str, kind: str, i: int) -> dict[str, Any]:
    """Record i: one of those that both sides have, or else a copy, or, where all is clean, an id of its own."""
    copy = kind != "clean" and i >= OTHERS
    sample_id = f"q-{OTHERS if copy else i}"
    number = OTHERS if copy and kind == "equal" else i
    docs = [f"doc-{(number * 7 + rank) % 100_003}" for rank in range(10)]
    if side == "samples":
        return {"id": sample_id, "expected_output": docs[:3], "metadata": {"k": 10}}
    return {"id": sample_id, "actual_output": docs}


def _write(path: Path, blocks: Iterator[list[dict[str, Any]]]) -> None:
    """Under another name first: a run cut short must not leave half a file that passes for a whole one."""
    unfinished = path.with_suffix(".part")
    if path.suffix == ".jsonl":
        with unfinished.open("w") as file:
            for block in blocks:
                file.writelines(json.dumps(record) + "\n" for record in block)
    else:
        tables = (pa.Table.from_pylist(block) for block in blocks)
        first = next(tables)
        with pq.ParquetWriter(unfinished, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
    unfinished.rename(path)


def expected(side: str, kind: str, records: int) -> dict[str, dict[str, int]]:
    """The ledger's two sides; ids beyond those that both have are missing (samples) or unmatched (outputs)."""
    names = {"samples": ("joined", "missing"), "outputs": ("matched", "unmatched")}
    copies = records - OTHERS
    counts = {
        "clean": (OTHERS + 1, copies - 1, 0, 0),
        "equal": (OTHERS + 1, 0, 0, copies - 1),
        "differing": (OTHERS, 0, copies, 0),
    }[kind]
    # Of the other side only what meets the copies changes: a sample scores 0, an output has no sample.
    other = (OTHERS + 1, 0, 0, 0) if kind != "differing" else (OTHERS, 1, 0, 0)
    ledger = {}
    for each, (met, alone, rejected, duplicate) in {side: counts, _other(side): other}.items():
        words = (*names[each], "rejected", "duplicate")
        ledger[each] = {"read": records if each == side else OTHERS + 1} | dict(
            zip(words, (met, alone, rejected, duplicate), strict=True)
        )
    return ledger


def _other(side: str) -> str:
    return "outputs" if side == "samples" else "samples"
