"""Other people's names: what the plan's `[fields]` may say, and that mapped files score like native ones."""

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.commit import open_run
from pipeline.errors import UsageError
from pipeline.evaluate import evaluate
from pipeline.fields import Fields, check_fields, pick, project, select, wanted
from pipeline.plan import load_plan, make_plan
from transforms.limits import BrokenInput
from transforms.records import Columns, Lines, Refused, Rows

from .datasets import write_jsonl

SAMPLES = [
    {"inputs": {"qid": "q1"}, "gold": {"docs": ["a", "b"]}, "about": {"lang": "en"}, "id": 7},
    {"inputs": {"qid": "q2"}, "gold": {"docs": ["c"]}, "about": {"lang": "de"}, "id": 8},
]
OUTPUTS = [
    {"inputs": {"qid": "q1"}, "hits": ["b", "x"], "actual_output": "noise"},
    {"inputs": {"qid": "q2"}, "hits": ["c"], "actual_output": "noise"},
]
PLAN = """
[fields]
id = "inputs.qid"
[fields.samples]
expected_output = "gold.docs"
metadata = "about"
[fields.outputs]
retrieved = "hits"
"""
METRICS = "recall@2,mrr"


def direct() -> Any:
    samples = [
        {"id": s["inputs"]["qid"], "expected_output": s["gold"]["docs"], "metadata": s["about"]} for s in SAMPLES
    ]
    outputs = [{"id": o["inputs"]["qid"], "retrieved": o["hits"]} for o in OUTPUTS]
    return evaluate(samples, outputs, metrics=METRICS, slice_by=["lang"])


STRINGS = {"type": "array", "items": "string"}


def avro_record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


AVRO = {
    "samples": avro_record(
        "sample",
        inputs=avro_record("inputs", qid="string"),
        gold=avro_record("gold", docs=STRINGS),
        about=avro_record("about", lang="string"),
        id="int",
    ),
    "outputs": avro_record("output", inputs=avro_record("inputs", qid="string"), hits=STRINGS, actual_output="string"),
}


def write(folder: Path, side: str, records: list[Any], format: str) -> Path:
    path = folder / f"{side}.{format}"
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif format == "avro":
        with path.open("wb") as file:
            fastavro.writer(file, AVRO[side], records)
    elif format == "yaml":
        path.write_text(json.dumps(records))  # JSON is YAML
    else:
        write_jsonl(path, records)
    return path


def run(folder: Path, samples: Path, outputs: Path, plan: str, *flags: str) -> int:
    (folder / "plan.toml").write_text(plan)
    files = ["--samples", str(samples), "--outputs", str(outputs), "--out", str(folder / "runs")]
    more = ["--plan", str(folder / "plan.toml"), "--metrics", METRICS, "--run-date", "2026-11-18"]
    return main(["run", *files, *more, *flags])


@pytest.mark.parametrize("samples", ["jsonl", "parquet", "avro", "yaml"])
@pytest.mark.parametrize("outputs", ["jsonl", "parquet", "avro"])
def test_mapped_files_score_like_native_ones(tmp_path: Path, samples: str, outputs: str) -> None:
    files = write(tmp_path, "samples", SAMPLES, samples), write(tmp_path, "outputs", OUTPUTS, outputs)
    assert run(tmp_path, *files, PLAN, "--slice-by", "lang") == 0
    committed = open_run(str(tmp_path / "runs"))
    assert committed.summary().equals(direct().summary)
    assert committed.manifest["plan"]["fields"] == {
        "samples": {"id": "inputs.qid", "expected_output": "gold.docs", "metadata": "about"},
        "outputs": {"id": "inputs.qid", "retrieved": "hits"},
    }


def test_validate_follows_the_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write(tmp_path, "samples", SAMPLES, "jsonl"), write(tmp_path, "outputs", OUTPUTS, "parquet")
    (tmp_path / "plan.toml").write_text(PLAN)
    flags = ["--samples", str(files[0]), "--outputs", str(files[1]), "--plan", str(tmp_path / "plan.toml")]
    assert main(["validate", *flags]) == 0
    assert "join: 2 of 2 samples have an output" in capsys.readouterr().out


def test_a_run_without_fields_says_so_in_its_manifest(tmp_path: Path) -> None:
    assert make_plan({}, {}, require=()).describe()["fields"] == {"samples": {}, "outputs": {}}


@pytest.mark.parametrize(
    "table, message",
    [
        ('[fields]\nidd = "x"', "fields.idd: no field of the contract; did you mean id?"),
        ('[fields.samples]\nretrieved = "x"', "fields.samples.retrieved: no field of the contract; known: id"),
        (
            '[fields.outputs]\nretreived = "x"',
            "fields.outputs.retreived: no field of the contract; did you mean retrieved?",
        ),
        ('[fields.sample]\nid = "x"', "fields.sample: no field of the contract; did you mean samples?"),
        ("[fields]\nid = 3", "fields.id: expected a text"),
        ('[fields.samples.id]\na = "x"', "fields.samples.id: expected a text"),
        ('[fields]\nid = "a..b"', "fields.id 'a..b': expected plain names joined by dots"),
        ('[fields]\nid = ""', "expected plain names"),
        ('[fields]\nid = "a[0]"', "expected plain names"),
        ('[fields]\nid = "$.a"', "expected plain names"),
        ('[fields]\nid = " a"', "expected plain names"),
        ('fields = "id"', "fields: expected a table, found a text"),
    ],
)
def test_a_mapping_that_cannot_be_is_a_usage_error(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "plan.toml").write_text(table)
    with pytest.raises(UsageError) as error:
        load_plan(str(tmp_path / "plan.toml"))
    assert message in str(error.value)


def test_names_with_dashes_spaces_and_other_letters_are_plain() -> None:
    paths = {"id": "query-id", "retrieved": "top hits.früh_1"}
    assert check_fields(paths, "plan").of("outputs") == paths


def test_flat_fields_hold_for_the_side_that_has_them_and_a_side_goes_before() -> None:
    fields = check_fields({"id": "a", "retrieved": "r", "outputs": {"id": "b"}}, "plan")
    assert fields == Fields((("id", "a"), ("retrieved", "r")), (), (("id", "b"),))
    assert fields.of("samples") == {"id": "a"}
    assert fields.of("outputs") == {"id": "b", "retrieved": "r"}


@pytest.mark.parametrize(
    "plan, message",
    [
        ('[fields.samples]\nid = "x"', "fields.samples: trec has no fields with names to map"),
        ('[fields]\nid = "x"', "fields: neither trec nor trec has fields with names"),
    ],
)
def test_formats_without_names_cannot_be_mapped(tmp_path: Path, plan: str, message: str, capsys: Any) -> None:
    (tmp_path / "a.qrels").write_text("q 0 a 1\n")
    (tmp_path / "a.run").write_text("q Q0 a 1 1 t\n")
    assert run(tmp_path, tmp_path / "a.qrels", tmp_path / "a.run", plan) == 2
    assert message in capsys.readouterr().err


def test_a_flat_mapping_leaves_a_side_without_names_alone(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q1 0 a 1\nq2 0 c 1\n")
    outputs = write(tmp_path, "outputs", OUTPUTS, "jsonl")
    assert run(tmp_path, tmp_path / "a.qrels", outputs, '[fields]\nid = "inputs.qid"\nretrieved = "hits"') == 0
    assert open_run(str(tmp_path / "runs")).manifest["ledger"]["samples"]["joined"] == 2


def test_a_path_that_a_parquet_file_lacks_is_an_error_at_launch(tmp_path: Path, capsys: Any) -> None:
    files = write(tmp_path, "samples", SAMPLES, "parquet"), write(tmp_path, "outputs", OUTPUTS, "parquet")
    assert run(tmp_path, *files, PLAN.replace("gold.docs", "gold.dcos")) == 3
    message = capsys.readouterr().err
    assert "expected_output is at gold.dcos, and there is no gold.dcos" in message
    assert "gold: struct<docs" in message
    assert not (tmp_path / "runs").exists()


MAPPING = {"id": "inputs.qid", "retrieved": "hits"}
OWN = ("id", "actual_output", "actualOutput", "retrieved", "error")


def test_only_the_needed_columns_are_read() -> None:
    assert set(wanted(MAPPING, OWN)) == {"error", "inputs.qid", "inputs", "hits"}


def test_a_field_named_like_the_whole_path_goes_before_the_way_inside() -> None:
    record = {"inputs.qid": "flat", "inputs": {"qid": "deep"}}
    assert pick(record, {"id": "inputs.qid"}, ()) == {"id": "flat"}
    batch = pa.RecordBatch.from_pylist([record])
    assert select(batch, {"id": "inputs.qid"}, (), "a").to_pylist() == [{"id": "flat"}]


def test_a_way_that_ends_early_gives_no_field() -> None:
    for record in (
        {},
        {"inputs": None},
        {"inputs": "text"},
        {"inputs": [1]},
        {"inputs": {}},
        {"inputs": {"qid": None}},
    ):
        assert pick(record, {"id": "inputs.qid"}, ()) == {}


def test_a_mapped_field_never_falls_back_to_its_own_name() -> None:
    assert pick({"id": "own"}, {"id": "inputs.qid"}, ()) == {}


def test_nulls_on_the_way_are_null_in_columns() -> None:
    batch = pa.RecordBatch.from_pylist([{"inputs": {"qid": "a"}}, {"inputs": None}])
    assert select(batch, {"id": "inputs.qid"}, (), "a").to_pylist() == [{"id": "a"}, {"id": None}]
    assert select(batch.slice(1), {"id": "inputs.qid"}, (), "a").to_pylist() == [{"id": None}]
    with pytest.raises(BrokenInput, match=r"there is no inputs\.x"):
        select(batch, {"id": "inputs.x"}, (), "a")


def test_what_cannot_be_decoded_stays_for_the_parser_to_name() -> None:
    odd = [b"{broken", b"[1]", b"\xff", b"7", b"[" * 5000]
    good = b'{"inputs": {"qid": "q"}, "hits": [1, "\xc3\xa9"], "error": null, "other": 1}'
    found = project(Lines([1, 2, 3, 4, 5, 6], [*odd, good]), MAPPING, OWN, "a")
    assert isinstance(found, Lines)
    assert found.data[:5] == odd
    assert json.loads(found.data[5]) == {"id": "q", "retrieved": [1, "é"], "error": None}


def test_rows_and_refusals_pass_through() -> None:
    rows = project(Rows([1, 2], [{"inputs": {"qid": 1}, "hits": []}, "text"]), MAPPING, OWN, "a")
    assert isinstance(rows, Rows) and rows.records == [{"id": 1, "retrieved": []}, "text"]
    refused = Refused(1, "too_large", "m", b"", "")
    assert project(refused, MAPPING, OWN, "a") is refused
    batch = pa.RecordBatch.from_pylist([{"inputs": {"qid": "q"}, "hits": ["a"]}])
    columns = project(Columns(5, batch), MAPPING, OWN, "a")
    assert isinstance(columns, Columns) and columns.first == 5


def test_a_mapped_line_with_nan_is_refused_and_still_known_by_its_id(tmp_path: Path) -> None:
    samples = write_jsonl(tmp_path / "s.jsonl", SAMPLES)
    outputs = tmp_path / "o.jsonl"
    outputs.write_text(
        json.dumps(OUTPUTS[0]) + '\n{"inputs": {"qid": "q2"}, "hits": [{"id": "c", "score": NaN}]}\n{"inputs": {}}\n'
    )
    assert run(tmp_path, samples, outputs, PLAN, "--max-rejects", "100%") == 0
    committed = open_run(str(tmp_path / "runs"))
    places = [(Path(row["location"]).name, row["code"]) for row in committed.rejected().to_pylist()]
    assert sorted(places) == [("o.jsonl:2", "non_finite"), ("o.jsonl:3", "missing_id")]
    statuses = {(row["sample_id"], row["status"]) for row in committed.per_sample().to_pylist()}
    assert statuses == {("q1", "scored"), ("q2", "bad_output")}
