"""FAULTS.md rows 10 to 16: containers that are broken or hostile, and the layouts that are neither."""

import gzip
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .driving import OUTPUT, SAMPLE, Desk

RECURSIVE = {
    "type": "record",
    "name": "node",
    "fields": [{"name": "id", "type": "string"}, {"name": "next", "type": ["null", "node"]}],
}


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_row_10_a_truncated_gzip_file_fails_and_is_named(desk: Desk) -> None:
    packed = gzip.compress(b'{"id": "q-1", "expected_output": ["d-1"]}\n' * 5000)
    desk.samples = desk.write("samples.jsonl.gz", packed[:-20])
    desk.refuses(3, "samples.jsonl.gz", "fetch", spawned=True)
    assert "samples.jsonl.gz" in desk.validate().out


def test_row_10_a_gzip_bomb_is_one_rejected_line(desk: Desk) -> None:
    bomb = gzip.compress(b'{"id": "' + b"0" * (64 << 20) + b'"}\n')
    assert len(bomb) * 900 < 64 << 20
    desk.samples = desk.write("samples.jsonl.gz", bomb)
    desk.refuses(3, "1 of 1 samples rejected (1 too_large)")


@pytest.mark.parametrize("side", ["samples", "outputs"])
@pytest.mark.parametrize("spoil", ["truncated", "bad footer", "wrong magic"])
def test_row_11_a_broken_parquet_file_fails_and_is_named(desk: Desk, side: str, spoil: str) -> None:
    path = parquet(desk.folder / f"{side}.parquet", {"id": ["q-1"], "expected_output": [["d"]], "retrieved": [["d"]]})
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    broken = {
        "truncated": data[: len(data) // 2],
        "bad footer": data[:footer] + b"\xff" * 40 + data[footer + 40 :],
        "wrong magic": b"PK\x03\x04" + data[4:-4] + b"PK\x03\x04",
    }
    path.write_bytes(broken[spoil])
    setattr(desk, side, path)
    desk.refuses(3, f"{side}.parquet", spawned=spoil == "truncated")


def test_row_12_a_parquet_file_that_expands_beyond_reason_is_refused(desk: Desk) -> None:
    """A dictionary of one long text, and a row for each time that it is meant: small in the file, vast in memory."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), pa.array(["x" * (9 << 20)]))
    table = pa.table({"id": [f"q-{i}" for i in range(4000)], "expected_output": texts})
    pq.write_table(table, desk.folder / "samples.parquet", compression="zstd", store_schema=False)
    desk.samples = desk.folder / "samples.parquet"
    assert desk.samples.stat().st_size < 100_000
    ended = desk.run()
    assert ended.code == 3 and ended.err.count("\n") == 1
    assert "samples.parquet" in ended.err or "4000 of 4000 samples rejected (4000 cell_too_large)" in ended.err
    desk.check_nothing_published()


def test_row_13_avro_with_a_recursive_schema_fails_and_the_process_survives(desk: Desk) -> None:
    path = desk.folder / "samples.avro"
    record: dict[str, Any] = {"id": "x", "next": None}
    for _ in range(200):
        record = {"id": "x", "next": record}
    with path.open("wb") as file:
        fastavro.writer(file, RECURSIVE, [record])
    desk.samples = path
    desk.refuses(3, "samples.avro", "recursive", spawned=True)


@pytest.mark.parametrize(
    ("side", "columns", "said"),
    [
        ("samples", {"expected_output": [["d"]]}, ["expected a column `id`", "found expected_output: list"]),
        ("samples", {"id": ["q-1"]}, ["expected a column `expected_output`", "found id: string"]),
        ("samples", {"id": [1.5], "answer": ["x"]}, ["expected `id` to hold strings or integers, found double"]),
        ("samples", {"id": ["q-1"], "expected_output": [1]}, ["expected `expected_output` to hold lists", "int64"]),
        ("outputs", {"id": ["q-1"], "docs": [["d"]]}, ["expected a column `actual_output`", "docs: list"]),
        ("outputs", {"id": ["q-1"], "retrieved": [True]}, ["expected `retrieved` to hold lists", "found bool"]),
    ],
)
def test_row_14_a_column_missing_or_of_the_wrong_type_says_expected_against_found(
    desk: Desk, side: str, columns: dict[str, Any], said: list[str]
) -> None:
    setattr(desk, side, parquet(desk.folder / f"{side}.parquet", columns))
    desk.refuses(3, f"{side}.parquet: ", *said)


def test_row_14_integer_ids_are_cast_and_counted(desk: Desk) -> None:
    desk.samples = parquet(desk.folder / "s.parquet", {"id": [7], "expected_output": [[1, 2]]})
    desk.write("outputs.jsonl", {"id": 7, "retrieved": [2, "1"]})
    ledger = desk.commits("--metrics", "recall")
    assert [row["value"] for row in desk.rows()] == [1.0]
    noted = {"samples.integer_sample_ids": 1, "samples.integer_ids": 1}
    assert noted.items() <= ledger["noted"].items()
    assert {"outputs.integer_sample_ids": 1, "outputs.integer_ids": 1}.items() <= ledger["noted"].items()


def test_row_14_to_eval_harness_an_integer_document_is_an_error(desk: Desk) -> None:
    desk.write("outputs.jsonl", {"id": "q-1", "retrieved": [2]})
    desk.refuses(3, "1 of 1 outputs rejected", flags=("--dialect", "eval-harness"))
    desk.commits("--dialect", "eval-harness", "--max-rejects", "100%")
    assert {(row["value"], row["status"]) for row in desk.rows()} == {(None, "error")}


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_row_15_columns_that_nobody_reads_are_listed_once(desk: Desk, format: str) -> None:
    for number in (1, 2):
        record = {"id": f"q-{number}", "expected_output": ["d-1"], "expcted": "x\x1b[31m", "rows": 3}
        path = desk.folder / f"s-{number}.{format}"
        if format == "parquet":
            pq.write_table(pa.Table.from_pylist([record]), path)
        else:
            kinds = {"expected_output": {"type": "array", "items": "string"}, "rows": "int"}
            fields = [{"name": name, "type": kinds.get(name, "string")} for name in record]
            with path.open("wb") as file:
                fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [record])
    desk.samples = desk.folder / f"s-*.{format}"
    ended = desk.spawn()
    assert ended.code == 0
    assert ended.err == "rankbeam: inputs: samples: columns not read: expcted, rows\n"
    assert "  columns not read: expcted, rows\n" in desk.validate().out


LISTS = [["d-1", "d-2"], ["d-2", "d-1"]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.large_string()), pa.large_list(pa.string()), pa.list_(pa.string(), 2),
        pa.list_(pa.dictionary(pa.int32(), pa.string())), pa.large_list(pa.large_string()), pa.list_(pa.binary()),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("id_kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_row_16_every_layout_of_texts_and_lists_gives_the_same_numbers(
    desk: Desk, kind: pa.DataType, id_kind: pa.DataType
) -> None:
    desk.write("samples.jsonl", SAMPLE, {**SAMPLE, "id": "q-2"})
    columns = {"id": pa.array(["q-1", "q-2"]).cast(id_kind), "retrieved": pa.array(LISTS, kind)}
    desk.outputs = parquet(desk.folder / "outputs.parquet", columns)
    desk.commits("--metrics", "mrr")
    assert sorted(row["value"] for row in desk.rows()) == [0.5, 1.0]


@pytest.mark.parametrize("kind", [pa.list_view(pa.string()), pa.large_list_view(pa.string_view())], ids=str)
def test_row_16_list_views_of_tables_in_memory_are_read(kind: pa.DataType) -> None:
    from pipeline import evaluate

    outputs = pa.table({"id": ["q-1", "q-2"], "retrieved": pa.array(LISTS, kind)})
    found = evaluate([SAMPLE, {**SAMPLE, "id": "q-2"}], outputs, metrics="mrr")
    assert sorted(found.rows["value"].to_pylist()) == [0.5, 1.0] and OUTPUT["id"] == "q-1"
