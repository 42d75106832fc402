"""Every dialect gives the numbers of the system that it is named after.

The vectors came with the project: one sample, one output, and what the system itself gives (`tests/data/conformance`).
Each is evaluated alone, and all of a dialect go through the Beam pipeline in one run.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.committed import Run, open_run
from pipeline.job import run
from pipeline.plan import make_plan
from transforms.dialects import DIALECTS

DATA = Path(__file__).parent / "data" / "conformance"


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


VECTORS = read("vectors.jsonl")
POOLED = read("pooled.jsonl")

Rows = Mapping[str, Mapping[str, Any]]
"""Metric → its row."""


def by_id(vector: dict[str, Any]) -> str:
    return str(vector["id"])


def holds(vector: dict[str, Any], rows: Rows) -> None:
    for metric, expected in vector["expect"].items():
        row = rows[metric]
        if expected is None:
            assert row["value"] is None, metric
        else:
            assert row["value"] == pytest.approx(expected, rel=0, abs=1e-12), metric
        if "status" in vector:
            assert row["status"] == vector["status"], metric


@pytest.mark.parametrize("vector", VECTORS, ids=by_id)
def test_a_vector_holds(vector: dict[str, Any]) -> None:
    found = pipeline.evaluate([vector["sample"]], [vector["output"]], list(vector["expect"]), vector["dialect"])
    holds(vector, {row["metric"]: row for row in found.rows.to_pylist()})
    assert found.ledger["balanced"]


@pytest.mark.parametrize("dialect", sorted({vector["dialect"] for vector in VECTORS}))
def test_all_vectors_of_a_dialect_hold_in_one_run(dialect: str, tmp_path: Path) -> None:
    vectors = [vector for vector in VECTORS if vector["dialect"] == dialect]
    samples, outputs = ([vector[side] | {"id": vector["id"]} for vector in vectors] for side in ("sample", "output"))
    found = committed(
        tmp_path, samples, outputs, [metric for vector in vectors for metric in vector["expect"]], dialect
    )
    rows: dict[str, dict[str, Any]] = {vector["id"]: {} for vector in vectors}
    for row in found.per_sample().to_pylist():
        rows[row["sample_id"]][row["metric"]] = row
    for vector in vectors:
        holds(vector, rows[vector["id"]])


@pytest.mark.parametrize("vector", POOLED, ids=by_id)
def test_pooled_values_are_exactly_the_systems(vector: dict[str, Any], tmp_path: Path) -> None:
    samples, outputs, metrics = vector["samples"], vector["outputs"], list(vector["expect_pooled"])
    found = pipeline.evaluate(samples, outputs, metrics, vector["dialect"]).summary
    rows = found.to_pylist()
    assert {row["metric"]: row["mean"] for row in rows} == vector["expect_pooled"]
    for column, expected in vector.get("expect_counts", {}).items():
        assert [row[column] for row in rows] == [expected] * len(rows)
    assert committed(tmp_path, samples, outputs, metrics, vector["dialect"]).summary().equals(found)


def committed(folder: Path, samples: list[Any], outputs: list[Any], metrics: list[str], dialect: str) -> Run:
    """The run that the Beam pipeline commits."""
    for name, records in (("samples", samples), ("outputs", outputs)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    asked = {
        "samples": str(folder / "samples.jsonl"),
        "outputs": str(folder / "outputs.jsonl"),
        "out": str(folder / "runs"),
        "metrics": list(dict.fromkeys(metrics)),
        "dialect": dialect,
        "max_rejects": "100%",
        "buckets": 3,
    }
    assert run(make_plan(asked, {}), []).manifest["ledger"]["balanced"]
    return open_run(str(folder / "runs"))


def test_every_dialect_has_vectors() -> None:
    assert {vector["dialect"] for vector in VECTORS} == set(DIALECTS)
