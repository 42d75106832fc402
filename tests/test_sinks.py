"""Writing: rows keep their values, files keep their checksums, and the last step names what was written."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that, equal_to

from pipeline import sinks
from pipeline.commit import FileDescriptor, begin, check_files, read_result
from pipeline.sinks import WriteLedger, WriteMetricRows, WriteRejected, WriteSummary, metric_rows
from transforms.records import PER_SAMPLE, REJECTED, SUMMARY, MetricRows, Status

METRICS = ("recall@k", "mrr")


def block(ids: list[str], seed: int = 0, metrics: int = 2) -> MetricRows:
    rng = np.random.default_rng(seed)
    shape = (metrics, len(ids))
    return MetricRows(
        sample_ids=pa.array(ids, pa.string()),
        outcome=np.zeros(len(ids), np.int8),
        values=rng.random(shape),
        status=np.zeros(shape, np.int8),
        k=np.repeat(np.array([[5], [0]], np.int32), len(ids), axis=1) if metrics == 2 else np.ones(shape, np.int32),
        slices={"lang": pa.array([["en"]] * len(ids))},
    )


def small_block() -> MetricRows:
    rows = block(["a", "b", "c"])
    rows.values[:] = [[0.5, 0.0, np.nan], [1.0, 0.0, np.nan]]
    rows.status[:, 1] = Status.MISSING_OUTPUT
    rows.status[:, 2] = Status.NO_RELEVANT
    rows.k[0] = [5, 10, 5]
    return rows


SMALL_ROWS = [
    {"sample_id": "a", "metric": "recall@k", "k": 5, "value": 0.5, "status": "scored"},
    {"sample_id": "a", "metric": "mrr", "k": None, "value": 1.0, "status": "scored"},
    {"sample_id": "b", "metric": "recall@k", "k": 10, "value": 0.0, "status": "missing_output"},
    {"sample_id": "b", "metric": "mrr", "k": None, "value": 0.0, "status": "missing_output"},
    {"sample_id": "c", "metric": "recall@k", "k": 5, "value": None, "status": "no_relevant"},
    {"sample_id": "c", "metric": "mrr", "k": None, "value": None, "status": "no_relevant"},
]


def rejected(rows: int) -> pa.RecordBatch:
    row = {
        "source": "outputs",
        "location": "o.jsonl:7",
        "code": "bad_json",
        "message": "m",
        "preview": "{",
        "sha256": None,
    }
    return pa.RecordBatch.from_pylist([row] * rows, schema=REJECTED)


def summary() -> pa.RecordBatch:
    row = {"metric": "mrr", "k": None, "slice": "all", "slice_value": None, "mean": 0.5}
    row |= {"count": 2, "expected": 3, "missing": 1, "undefined": 1}
    return pa.RecordBatch.from_pylist([row], schema=SUMMARY)


def write_part(folder: Path, table: pa.Table) -> FileDescriptor:
    part = sinks._ParquetPart(str(folder), "per_sample")
    part.open()
    part.write(table)
    return part.close({})[0]


def write_blocks(folder: Path, blocks: list[MetricRows]) -> list[FileDescriptor]:
    """A bundle driven by hand."""
    fn = sinks._WriteMetricRowsFn(str(folder), METRICS)
    fn.start_bundle()
    for each in blocks:
        fn.process(each)
    return [each.value for each in fn.finish_bundle()]


def test_tidy_rows_go_sample_by_sample_with_null_for_undefined_and_for_no_cutoff():
    assert metric_rows(small_block(), METRICS).cast(PER_SAMPLE).to_pylist() == SMALL_ROWS


def test_a_block_of_nothing_is_a_table_of_nothing():
    assert metric_rows(block([]), METRICS).cast(PER_SAMPLE).num_rows == 0


def test_rows_read_back_as_the_published_schema_with_plain_strings(tmp_path):
    file = write_part(tmp_path, metric_rows(small_block(), METRICS))
    table = pq.read_table(pa.BufferReader((tmp_path / file.path).read_bytes()))
    assert table.schema.equals(PER_SAMPLE, check_metadata=True)
    assert table.to_pylist() == SMALL_ROWS


def test_values_survive_to_the_last_bit(tmp_path):
    rows = block([f"s{i}" for i in range(1000)])
    file = write_part(tmp_path, metric_rows(rows, METRICS))
    read = pq.read_table(pa.BufferReader((tmp_path / file.path).read_bytes()))["value"].to_numpy()
    assert read.tobytes() == np.ascontiguousarray(rows.values.T).tobytes()


def test_the_descriptor_holds_the_hash_and_rows_of_the_bytes_on_disk(tmp_path):
    (file,) = write_blocks(tmp_path, [small_block(), block(["d"])])
    data = (tmp_path / file.path).read_bytes()
    assert file.sha256 == hashlib.sha256(data).hexdigest()
    assert (file.kind, file.rows) == ("per_sample", pq.read_metadata(pa.BufferReader(data)).num_rows)
    assert file.statuses == {"scored": 4, "missing_output": 2, "no_relevant": 2}


def test_a_flipped_bit_in_a_page_is_caught_by_its_checksum(tmp_path):
    file = write_part(tmp_path, metric_rows(block([f"s{i}" for i in range(5000)]), METRICS))
    good = (tmp_path / file.path).read_bytes()
    column = pq.read_metadata(pa.BufferReader(good)).row_group(0).column(3)
    start = column.dictionary_page_offset or column.data_page_offset
    caught = 0
    offsets = range(start + 100, start + column.total_compressed_size, column.total_compressed_size // 20)
    for offset in offsets:
        bad = bytearray(good)
        bad[offset] ^= 1
        with pytest.raises(OSError):
            pq.read_table(pa.BufferReader(bytes(bad)), page_checksum_verification=True)
        caught += 1
    assert caught >= 15


def test_small_blocks_share_a_row_group_and_large_ones_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "ROW_GROUP_ROWS", 20)
    blocks = [block([f"one-{i}"], seed=i) for i in range(15)] + [block([f"many-{i}" for i in range(25)])]
    (file,) = write_blocks(tmp_path, blocks)
    data = pa.BufferReader((tmp_path / file.path).read_bytes())
    found = pq.read_metadata(data)
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [20, 30, 20, 10]
    expected = pa.concat_tables([metric_rows(each, METRICS).cast(PER_SAMPLE) for each in blocks])
    assert pq.read_table(data).equals(expected.combine_chunks())


def test_long_ids_do_not_wait_for_a_full_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "PENDING_BYTES", 1000)
    (file,) = write_blocks(tmp_path, [block(["x" * 600 + str(i)]) for i in range(4)])
    assert pq.read_metadata(pa.BufferReader((tmp_path / file.path).read_bytes())).num_row_groups == 2


def test_an_empty_bundle_writes_no_file(tmp_path):
    assert write_blocks(tmp_path, [block([])]) == []
    assert list(tmp_path.iterdir()) == []


def test_a_failed_bundle_leaves_no_descriptor_and_its_retry_another_file(tmp_path):
    fn = sinks._WriteMetricRowsFn(str(tmp_path), METRICS)
    fn.start_bundle()
    fn._pending = [small_block()]
    fn._write_pending()
    bad = small_block()
    bad.status[0, 0] = 99
    fn.process(bad)
    with pytest.raises((pa.ArrowException, IndexError)):
        list(fn.finish_bundle())
    fn.start_bundle()
    fn.process(small_block())
    (windowed,) = fn.finish_bundle()
    assert windowed.value.rows == 6
    assert len(list((tmp_path / "per_sample").iterdir())) == 2


def test_the_same_rows_give_the_same_bytes(tmp_path):
    first, second = (write_blocks(tmp_path, [small_block()])[0] for _ in range(2))
    assert first.path != second.path
    assert first.sha256 == second.sha256


def write_all(attempt_dir: str, blocks, terms, problems) -> None:
    with test_pipeline.TestPipeline(runner="FnApiRunner") as root:
        files = (
            root | "Blocks" >> beam.Create(blocks) | WriteMetricRows(attempt_dir, METRICS),
            root | "Pooled" >> beam.Create([summary()] if blocks else []) | WriteSummary(attempt_dir),
            root | "Refused" >> beam.Create([rejected(2), rejected(1)] if blocks else []) | WriteRejected(attempt_dir),
        )
        inputs = {
            "descriptors": files | beam.Flatten(),
            "terms": root | "Terms" >> beam.Create(terms).with_output_types(tuple[str, int]),
            "problems": root | "Problems" >> beam.Create(problems).with_output_types(str),
        }
        written = inputs | WriteLedger(attempt_dir)
        assert_that(written | beam.combiners.Count.Globally(), equal_to([1]))


def test_a_pipeline_ends_with_one_result_that_names_every_file(tmp_path):
    attempt = begin(str(tmp_path), "2026-11-18", replace=False)
    blocks = [small_block(), block(["d", "e"])]
    write_all(attempt.path, blocks, [("samples.read", 3), ("samples.read", 2), ("outputs.read", 4)], ["late", "late"])
    assert len(list(Path(attempt.path).glob("_result-*.json"))) == 1
    result = read_result(attempt)
    assert result.terms == {"outputs.read": 4, "samples.read": 5}
    assert result.problems == ("late",)
    check_files(attempt, result.descriptors)
    rows = {
        kind: sum(file.rows for file in result.descriptors if file.kind == kind) for kind in ("per_sample", "rejected")
    }
    assert rows == {"per_sample": 10, "rejected": 3}
    statuses = [file.statuses for file in result.descriptors if file.kind == "per_sample"]
    assert sum(each.get("scored", 0) for each in statuses) == 6
    tables = [
        pq.read_table(pa.BufferReader((Path(attempt.path) / file.path).read_bytes()))
        for file in result.descriptors
        if file.kind == "per_sample"
    ]
    expected = pa.concat_tables([metric_rows(each, METRICS).cast(PER_SAMPLE) for each in blocks]).to_pylist()
    assert sorted(pa.concat_tables(tables).to_pylist(), key=str) == sorted(expected, key=str)


def test_a_pipeline_over_nothing_still_writes_a_result(tmp_path):
    attempt = begin(str(tmp_path), "2026-11-18", replace=False)
    write_all(attempt.path, [], [], [])
    result = read_result(attempt)
    assert (result.descriptors, result.terms, result.problems) == ((), {}, ())


def test_a_result_does_not_depend_on_the_order_its_parts_arrive_in():
    files = [FileDescriptor("summary", f"summary/part-{i:08x}.parquet", i, "0" * 64, {}) for i in range(3)]
    parts = [sinks._descriptor_part(file)[1] for file in files] + [
        sinks._term_part(("b", 1))[1],
        sinks._term_part(("a", 2))[1],
    ]
    assert sinks.result_json(parts) == sinks.result_json(reversed(parts))
    assert json.loads(sinks.result_json(parts))["terms"] == {"a": 2, "b": 1}


FULL_DISK = """
import resource, sys
import numpy as np, pyarrow as pa
from pipeline import sinks
from pipeline.errors import RankbeamError
from transforms.records import MetricRows
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
n = 20_000
fn = sinks._WriteMetricRowsFn(sys.argv[1], ("mrr",))
fn.start_bundle()
values = np.random.default_rng(0).random((1, n))
status, k = np.zeros((1, n), np.int8), np.zeros((1, n), np.int32)
fn.process(MetricRows(pa.array([str(i) for i in range(n)]), status[0], values, status, k, {}))
try:
    list(fn.finish_bundle())
except RankbeamError as error:
    fn.teardown()
    print(type(error).__name__, error.exit_code, error)
"""


def test_a_disk_that_takes_no_more_is_an_error_that_names_the_file(tmp_path):
    # The limit on a file's size stands in for a full disk: the write fails in the same place, with an errno.
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.stdout.startswith(f"RankbeamError 1 cannot write {tmp_path}/per_sample/part-"), done.stderr
    assert "nothing was published" in done.stdout
    assert "Exception ignored" not in done.stderr, "the abandoned writer made noise when it was let go of"
