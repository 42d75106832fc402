"""The whole job against the direct computation, from files to a committed run."""

import json
import random
import re
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline import job
from pipeline.cli import main
from pipeline.commit import open_run
from pipeline.errors import ContractError
from pipeline.evaluate import evaluate
from pipeline.plan import make_plan
from transforms.records import PER_SAMPLE, SUMMARY

from .datasets import dirty, random_outputs, random_samples, write_jsonl

METRICS = "hit@k,recall@1,5,k,precision@5,mrr,ndcg@5,k,ndcg(gain=exp2)@5,recall"
WORKED_SAMPLE = {"id": "q-1", "expected_output": ["doc-3", "doc-9"], "metadata": {"k": 5}}
WORKED_OUTPUT = {"id": "q-1", "retrieved": ["doc-7", "doc-3", "doc-1", "doc-9", "doc-2"]}


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in one order, values by their bits."""
    columns = [[v.hex() if isinstance(v, float) else v for v in column.to_pylist()] for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def run(folder: Path, samples: Path, outputs: Path, *flags: str) -> int:
    given = ["--samples", str(samples), "--outputs", str(outputs), "--out", str(folder / "runs")]
    return main(["run", *given, "--run-date", "2026-11-18", *flags])


@pytest.mark.parametrize("format", ["jsonl", "parquet", "avro", "yaml"])
def test_worked_example_gives_the_documented_numbers_from_every_format(tmp_path: Path, format: str) -> None:
    samples, outputs = tmp_path / f"samples.{format}", tmp_path / f"outputs.{format}"
    if format == "jsonl":
        write_jsonl(samples, [WORKED_SAMPLE])
        write_jsonl(outputs, [WORKED_OUTPUT])
    elif format == "parquet":
        pq.write_table(pa.Table.from_pylist([WORKED_SAMPLE]), samples)
        pq.write_table(pa.Table.from_pylist([WORKED_OUTPUT]), outputs)
    elif format == "avro":
        strings = {"type": "array", "items": "string"}
        metadata = {"type": "record", "name": "metadata", "fields": [{"name": "k", "type": "int"}]}
        fields = {"id": "string", "expected_output": strings, "metadata": metadata, "retrieved": strings}
        for path, record in ((samples, WORKED_SAMPLE), (outputs, WORKED_OUTPUT)):
            schema = {"type": "record", "name": "r", "fields": [{"name": f, "type": fields[f]} for f in record]}
            with path.open("wb") as file:
                fastavro.writer(file, schema, [record])
    else:
        samples.write_text(yaml.safe_dump({"samples": [WORKED_SAMPLE]}))
        outputs.write_text(yaml.safe_dump([WORKED_OUTPUT]))
    assert run(tmp_path, samples, outputs, "--metrics", "hit@5,recall@5,mrr,ndcg@5") == 0
    rows = open_run(str(tmp_path / "runs")).per_sample()
    assert rows.schema.equals(PER_SAMPLE)
    assert rows.to_pylist() == [
        {"sample_id": "q-1", "metric": "hit@5", "k": 5, "value": 1.0, "status": "scored"},
        {"sample_id": "q-1", "metric": "recall@5", "k": 5, "value": 1.0, "status": "scored"},
        {"sample_id": "q-1", "metric": "mrr", "k": None, "value": 0.5, "status": "scored"},
        {"sample_id": "q-1", "metric": "ndcg@5", "k": 5, "value": 0.6509209298071326, "status": "scored"},
    ]


@pytest.fixture(scope="module")
def five_thousand(tmp_path_factory: pytest.TempPathFactory) -> Any:
    rng = random.Random(20261118)
    samples = random_samples(rng, 5000)
    outputs = random_outputs(rng, samples)
    folder = tmp_path_factory.mktemp("five_thousand")
    # Two files a side, so that more than one reader and more than one block are at work.
    for side, records in (("samples", samples), ("outputs", outputs)):
        write_jsonl(folder / f"{side}-0.jsonl", records[: len(records) // 3])
        write_jsonl(folder / f"{side}-1.jsonl", records[len(records) // 3 :])
    return folder, evaluate(samples, outputs, metrics=METRICS, slice_by=["lang", "tags"])


WAYS = {
    "one bucket": ["--buckets", "1"],
    "three buckets": ["--buckets", "3"],
    "64 buckets, blocks of 7": ["--buckets", "64", "--block-rows", "7"],
    "blocks of 1024": ["--buckets", "3", "--block-rows", "1024"],
    "blocks of one": ["--buckets", "3", "--block-rows", "1"],
    "two worker processes": ["--", "--direct_running_mode=multi_processing", "--direct_num_workers=2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_pipeline_equals_direct_computation_bit_for_bit(five_thousand: Any, tmp_path: Path, way: str) -> None:
    folder, direct = five_thousand
    flags = ["--metrics", METRICS, "--slice-by", "lang,tags", *WAYS[way]]
    assert run(tmp_path, folder / "samples-*.jsonl", folder / "outputs-*.jsonl", *flags) == 0
    committed = open_run(str(tmp_path / "runs"))
    assert rows_of(committed.per_sample()) == rows_of(direct.rows)
    assert committed.summary().schema.equals(SUMMARY)
    assert committed.summary().equals(direct.summary)
    for side in ("samples", "outputs", "metric_rows"):
        assert committed.manifest["ledger"][side] == direct.ledger[side]


def run_dirty(seed: int, folder: Path) -> tuple[Any, Any]:
    made = dirty(random.Random(seed), 40)
    samples, outputs = made.write(folder)
    flags = {
        "samples": [str(samples)],
        "outputs": [str(outputs)],
        "out": str(folder / "runs"),
        "run_date": "2026-11-18",
        "max_rejects": "100%",
        "buckets": 1 + seed % 5,
        "block_rows": 1 + seed % 23,
    }
    return made, make_plan(flags, {})


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_every_record_of_200_dirty_inputs_is_accounted_for(tmp_path: Path, batch: int) -> None:
    for seed in range(batch * 25, batch * 25 + 25):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made, plan = run_dirty(seed, folder)
        ledger = job.run(plan, []).manifest["ledger"]
        for side in ("samples", "outputs"):
            assert ledger[side] == {word: made.ledger[side][word] for word in ledger[side]}, (seed, side)
        named = open_run(plan.out).rejected()
        places = [(Path(row["location"]).name, row["code"]) for row in named.to_pylist()]
        assert sorted(places) == sorted(made.rejected.elements()), seed


@pytest.mark.parametrize(
    "term",
    ["samples.read", "samples.joined", "samples.missing", "samples.duplicate", "samples.rejected.conflict",
     "outputs.read", "outputs.matched", "outputs.unmatched", "outputs.duplicate", "outputs.rejected.bad_output",
     "rows.scored"],
)  # fmt: skip
def test_a_run_whose_ledger_misses_one_count_does_not_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    _, plan = run_dirty(3, tmp_path)
    read_result = job.commit.read_result

    def one_less(attempt: Any) -> Any:
        result = read_result(attempt)
        result.terms[term] -= 1
        return result

    monkeypatch.setattr(job.commit, "read_result", one_less)
    with pytest.raises(ContractError, match="does not balance"):
        job.run(plan, [])
    assert not (tmp_path / "runs" / "run_date=2026-11-18" / "CURRENT").exists()


def test_a_row_lost_before_its_file_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transforms.score as score_module

    _, plan = run_dirty(3, tmp_path)
    whole = score_module.score

    def lose_one(joined: Any, scoring: Any) -> Any:
        rows = whole(joined, scoring)
        n = len(rows.sample_ids) - 1
        rows.sample_ids, rows.outcome = rows.sample_ids[:n], rows.outcome[:n]
        rows.values, rows.status, rows.k = rows.values[:, :n], rows.status[:, :n], rows.k[:, :n]
        return rows

    monkeypatch.setattr(score_module, "score", lose_one)
    with pytest.raises(ContractError, match="metric rows"):
        job.run(plan, [])


def test_the_graph_reads_like_its_picture() -> None:
    import apache_beam as beam

    from pipeline.graph import build
    from pipeline.inputs import InputFile, Inputs

    file = InputFile("samples", 0, "a.jsonl", "a.jsonl", "jsonl", 1)
    plan = make_plan({"samples": ["a"], "outputs": ["b"], "out": "c"}, {})
    root = beam.Pipeline()
    build(root, plan, Inputs((file,), (file,)), "attempt")
    labels = {part.full_label for part in root._root_transform().parts}
    steps = ["ReadSamples", "ReadOutputs", "JoinById", "ScoreSamples", "PoolMetrics", "WriteMetricRows"]
    assert labels >= {*steps, "WriteSummary", "WriteRejected", "WriteLedger"}


def test_summary_is_printed_with_counts_and_a_balanced_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "s.jsonl", [WORKED_SAMPLE, {**WORKED_SAMPLE, "id": "q-2"}])
    write_jsonl(tmp_path / "o.jsonl", [WORKED_OUTPUT])
    assert run(tmp_path, tmp_path / "s.jsonl", tmp_path / "o.jsonl") == 0
    printed = capsys.readouterr().out
    assert re.search(r"ndcg@k +.*0\.3255", printed)
    assert re.search(r"samples +2 = 1 joined \+ 1 missing", printed)


@pytest.mark.parametrize("missing, count, mean", [("zero", 2, 0.25), ("skip", 1, 0.5)])
def test_missing_outputs_score_zero_unless_skipped(tmp_path: Path, missing: str, count: int, mean: float) -> None:
    write_jsonl(tmp_path / "s.jsonl", [WORKED_SAMPLE, {**WORKED_SAMPLE, "id": "q-2"}])
    write_jsonl(tmp_path / "o.jsonl", [WORKED_OUTPUT])
    assert run(tmp_path, tmp_path / "s.jsonl", tmp_path / "o.jsonl", "--metrics", "mrr", "--missing", missing) == 0
    (row,) = open_run(str(tmp_path / "runs")).summary().to_pylist()
    assert (row["mean"], row["count"], row["expected"], row["missing"]) == (mean, count, 2, 1)


def test_missing_fail_refuses_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "s.jsonl", [WORKED_SAMPLE, {**WORKED_SAMPLE, "id": "q-2"}])
    write_jsonl(tmp_path / "o.jsonl", [WORKED_OUTPUT])
    assert run(tmp_path, tmp_path / "s.jsonl", tmp_path / "o.jsonl", "--missing", "fail") == 3
    assert "1 of 2 samples have no usable output" in capsys.readouterr().err


def test_a_second_run_of_a_date_needs_replace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = write_jsonl(tmp_path / "s.jsonl", [WORKED_SAMPLE])
    outputs = write_jsonl(tmp_path / "o.jsonl", [WORKED_OUTPUT])
    assert run(tmp_path, samples, outputs) == 0
    first = open_run(str(tmp_path / "runs"))
    assert run(tmp_path, samples, outputs) == 3
    assert first.attempt in capsys.readouterr().err
    assert run(tmp_path, samples, outputs, "--replace") == 0
    assert open_run(str(tmp_path / "runs")).attempt != first.attempt
    first.verify()


def test_too_many_rejects_are_refused_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = write_jsonl(tmp_path / "s.jsonl", [WORKED_SAMPLE])
    outputs = tmp_path / "o.jsonl"
    outputs.write_text(json.dumps(WORKED_OUTPUT) + "\n{broken\n")
    assert run(tmp_path, samples, outputs) == 3
    assert "1 of 2 outputs rejected (1 bad_json)" in capsys.readouterr().err
    assert run(tmp_path, samples, outputs, "--max-rejects", "50%") == 0


def test_nothing_joined_says_what_would_help(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = write_jsonl(tmp_path / "s.jsonl", [WORKED_SAMPLE])
    outputs = write_jsonl(tmp_path / "o.jsonl", [{**WORKED_OUTPUT, "id": "Q-1 "}])
    assert run(tmp_path, samples, outputs) == 3
    message = capsys.readouterr().err
    assert "0 of 1 samples joined; 100 % would after strip + lower + NFC" in message
