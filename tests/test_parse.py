"""Raw records to blocks: nothing about a record depends on its neighbours, its layout or what was asked."""

import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from transforms.limits import BrokenInput
from transforms.metadata import slice_values
from transforms.parse import Parsed, Raw, Source, Wants, parse_outputs, parse_samples
from transforms.records import REJECTED, Columns, Lines, Refused, Rows, output_block, sample_block
from transforms.tables import check_columns

from .datasets import dirty, random_outputs, random_samples

SAMPLES, OUTPUTS = Source("samples", 0, "s.jsonl"), Source("outputs", 1, "o.jsonl")
WANTS = Wants(("lang", "tags"))


def parse(raw: Raw, source: Source, wants: Wants = WANTS) -> Parsed:
    return parse_samples(raw, source, wants) if source.side == "samples" else parse_outputs(raw, source, wants)


def lines(records: list[Any], first: int = 1) -> Lines:
    data = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    return Lines(list(range(first, first + len(data))), data)


def rows(records: list[Any], first: int = 1) -> Rows:
    return Rows(list(range(first, first + len(records))), records)


def seen(parts: list[Parsed], leave_out: tuple[str, ...] = ()) -> tuple[list[str], list[str], Counter[str]]:
    """Block rows and rejected rows in one order, and the summed terms."""
    blocks = [row for part in parts if part.block is not None for row in part.block.drop_columns(leave_out).to_pylist()]
    rejected = [row for part in parts if part.rejected is not None for row in part.rejected.to_pylist()]
    return sorted(map(repr, blocks)), sorted(map(repr, rejected)), sum((part.terms for part in parts), Counter())


def digest(record: dict[str, Any], source: Source, beside: list[Any] = []) -> tuple[int, int]:  # noqa: B006
    found = parse(rows([*beside, record]), source).block.to_pylist()[-1]
    return found["digest_high"], found["digest_low"]


@pytest.fixture(scope="module")
def dirty_lines() -> dict[Source, list[bytes]]:
    made = dirty(random.Random(5), 150)
    return {
        SAMPLES: [line for line in made.samples if line.strip()],
        OUTPUTS: [line for line in made.outputs if line.strip()],
    }


@pytest.mark.parametrize("source", [SAMPLES, OUTPUTS], ids=lambda source: source.side)
@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_size_of_a_block_changes_nothing(dirty_lines: Any, source: Source, size: int) -> None:
    data = dirty_lines[source]
    whole = seen([parse(lines(data), source)])
    assert whole[1], "nothing dirty to compare"
    assert seen([parse(lines(data[at : at + size], at + 1), source) for at in range(0, len(data), size)]) == whole


@pytest.mark.parametrize("source", [SAMPLES, OUTPUTS], ids=lambda source: source.side)
def test_lines_and_rows_of_the_same_records_give_the_same_blocks(source: Source) -> None:
    rng = random.Random(7)
    records = random_samples(rng, 300)
    if source is OUTPUTS:
        records = random_outputs(rng, records)
    assert seen([parse(lines(records), source)]) == seen([parse(rows(records), source)])


@pytest.mark.parametrize("source", [SAMPLES, OUTPUTS], ids=lambda source: source.side)
def test_what_is_asked_changes_neither_digests_nor_rejects_nor_terms(dirty_lines: Any, source: Source) -> None:
    raw = lines(dirty_lines[source])
    plain = parse(raw, source, Wants())
    for wants in (WANTS, Wants(texts=True), Wants(depth=1), Wants(("id", "k"), texts=True, depth=3)):
        other = parse(raw, source, wants)
        assert other.terms == plain.terms
        assert other.rejected.equals(plain.rejected)
        for name in ("sample_id", "digest_high", "digest_low", "at", "defect"):
            assert other.block[name].equals(plain.block[name])


SAMPLE: dict[str, Any] = {
    "id": "q",
    "expected_output": {"a": 1, "b": 2},
    "input": {"question": "?"},
    "metadata": {"k": 3},
}
SAME_SAMPLES = [
    {**SAMPLE, "unknown": 7},
    {**SAMPLE, "answer": None},
    {**SAMPLE, "expected_output": {"b": 2, "a": 1}},
    {**SAMPLE, "expected_output": '{"b": 2.0, "a": 1}'},
    dict(reversed(SAMPLE.items())),
]
OTHER_SAMPLES = [
    SAMPLE,
    {**SAMPLE, "expected_output": {"a": 1, "b": 3}},
    {**SAMPLE, "expected_output": {"a": 1}},
    {**SAMPLE, "expected_output": ["a", "b"]},
    {**SAMPLE, "expected_output": ["b", "a"]},
    {**SAMPLE, "expected_output": ["a", "b", "b"]},
    {**SAMPLE, "expected_output": [["a", "b"]]},
    {**SAMPLE, "expected_output": [["a"], ["b"]]},
    {**SAMPLE, "expected_output": [["a"], ["b"], []]},
    {**SAMPLE, "expected_output": "text"},
    {**SAMPLE, "expected_output": "text", "answer": "answer"},
    {**SAMPLE, "expected_output": "other text", "answer": "answer"},
    {**SAMPLE, "answer": "answer"},
    {**SAMPLE, "answer": 1},
    {**SAMPLE, "answer": 2},
    {**SAMPLE, "input": {"question": "!"}},
    {**SAMPLE, "metadata": {"k": 4}},
    {**SAMPLE, "metadata": None},
    {**SAMPLE, "expected_output": 7},
    {**SAMPLE, "expected_output": 8},
    {**SAMPLE, "expected_output": [""]},
    {**SAMPLE, "expected_output": {"a": "high"}},
]
OUTPUT: dict[str, Any] = {"id": "q", "actual_output": ["a", "b"]}
SAME_OUTPUTS = [
    {"id": "q", "actual_output": {"retrieved": ["a", "b"]}},
    {"id": "q", "retrieved": '["a", "b"]'},
    {"id": "q", "actual_output": [{"id": "a"}, {"id": "b", "text": None, "other": 1}]},
    {**OUTPUT, "error": None, "unknown": 1},
]
OTHER_OUTPUTS = [
    OUTPUT,
    {**OUTPUT, "actual_output": ["b", "a"]},
    {**OUTPUT, "actual_output": ["ab"]},
    {**OUTPUT, "actual_output": ["a", "b", "b"]},
    {**OUTPUT, "actual_output": []},
    {**OUTPUT, "actual_output": [{"id": "a", "text": "t"}, "b"]},
    {**OUTPUT, "actual_output": ["a", {"id": "b", "text": "t"}]},
    {**OUTPUT, "actual_output": ["a", {"id": "b", "score": 1}]},
    {**OUTPUT, "actual_output": ["a", {"id": "b", "score": 2}]},
    {**OUTPUT, "error": "timeout"},
    {**OUTPUT, "error": "other"},
    {**OUTPUT, "answer": "x"},
    {**OUTPUT, "citations": ["x"]},
    {**OUTPUT, "latency_ms": 1},
    {**OUTPUT, "latency_ms": 2},
    {**OUTPUT, "usage": {"tokens": 1}},
    {**OUTPUT, "cost": 1},
    {"id": "q", "actual_output": {"retrieved": ["a", "b"], "answer": "y"}},
    {"id": "q", "error": "timeout"},
    {"id": "q", "error": "timeout", "actual_output": "one traceback"},
    {"id": "q", "error": "timeout", "actual_output": "another traceback"},
    {"id": "q", "actual_output": 7},
    {"id": "q", "actual_output": 8},
]


@pytest.mark.parametrize(
    ("source", "record", "same"), [(SAMPLES, SAMPLE, SAME_SAMPLES), (OUTPUTS, OUTPUT, SAME_OUTPUTS)]
)
def test_equal_content_has_one_digest_however_it_is_written(source: Source, record: Any, same: list[Any]) -> None:
    assert {digest(each, source) for each in same} == {digest(record, source)}


def test_a_field_is_the_same_at_the_top_level_and_within_the_output() -> None:
    within = {"id": "q", "actual_output": {"retrieved": ["a"], "answer": "x", "usage": {"b": 1, "a": 2}}}
    on_top = {"id": "q", "actual_output": ["a"], "answer": "x", "usage": {"a": 2, "b": 1}}
    assert digest(within, OUTPUTS) == digest(on_top, OUTPUTS)


@pytest.mark.parametrize(("source", "records"), [(SAMPLES, OTHER_SAMPLES), (OUTPUTS, OTHER_OUTPUTS)])
def test_different_content_has_different_digests_alone_and_in_company(source: Source, records: list[Any]) -> None:
    alone = [digest(record, source) for record in records]
    assert len(set(alone)) == len(records)
    assert [digest(record, source, records) for record in records] == alone


BAD_IDS = [
    (None, "missing_id"),
    ("", "missing_id"),
    (" \t", "missing_id"),
    ("\u00a0", "missing_id"),
    ("\u3000", "missing_id"),
    (True, "bad_id"),
    (1.5, "bad_id"),
    (["a"], "bad_id"),
    ({"a": 1}, "bad_id"),
    ("a\0b", "bad_id"),
    ("a\nb", "bad_id"),
    ("\x1b[31m", "bad_id"),
    ("\x85x", "bad_id"),
    ("\x7f", "bad_id"),
    ("x" * 513, "bad_id"),
    ("\ud800", "bad_id"),
    (b"bytes", "bad_id"),
    (10**5000, "bad_id"),
    (10**600, "bad_id"),
    (np.float64(1), "bad_id"),
]


@pytest.mark.parametrize("source", [SAMPLES, OUTPUTS], ids=lambda source: source.side)
@pytest.mark.parametrize(("value", "code"), BAD_IDS, ids=[f"{code}-{i}" for i, (_, code) in enumerate(BAD_IDS)])
def test_a_record_without_a_usable_id_leaves(source: Source, value: Any, code: str) -> None:
    body = {"expected_output": ["a"], "actual_output": ["a"]}
    parsed = parse(rows([{"id": "good", **body}, {"id": value, **body}]), source)
    assert parsed.block["sample_id"].to_pylist() == ["good"]
    assert [(row["location"], row["code"]) for row in parsed.rejected.to_pylist()] == [(f"{source.path}:2", code)]
    assert parsed.terms == {f"{source.side}.read": 2, f"{source.side}.rejected.{code}": 1}


def test_unusual_ids_are_kept_as_they_are() -> None:
    ids = ["x" * 512, "é" * 512, " a ", "../../x", "=HYPERLINK()", "\u202e", "a\u00a0b", "0"]
    parsed = parse(rows([{"id": each, "retrieved": []} for each in ids]), OUTPUTS)
    assert parsed.block["sample_id"].to_pylist() == ids
    assert parsed.rejected is None


def test_integer_ids_are_cast_and_counted_in_every_format() -> None:
    records = [{"id": 7, "retrieved": [1]}, {"id": -1, "retrieved": []}]
    batch = pa.RecordBatch.from_pylist(records)
    for raw in (
        rows(records),
        lines(records),
        Columns(1, batch),
        rows([{"id": np.int32(7), "retrieved": [np.int8(1)]}, records[1]]),
    ):
        parsed = parse(raw, OUTPUTS)
        assert parsed.block["sample_id"].to_pylist() == ["7", "-1"]
        assert parsed.terms["noted.outputs.integer_sample_ids"] == 2
        assert parsed.terms["noted.outputs.integer_ids"] == 1


def test_a_bad_body_under_a_good_id_goes_on_with_a_defect() -> None:
    parsed = parse(rows([{"id": "a", "actual_output": 7}, {"id": "b", "actual_output": []}]), OUTPUTS)
    assert parsed.block["sample_id"].to_pylist() == ["a", "b"]
    assert (parsed.block["defect"].to_numpy() != 0).tolist() == [True, False]
    assert parsed.terms == {"outputs.read": 2, "outputs.rejected.bad_output": 1}


def test_a_missing_id_is_worth_more_to_know_than_a_bad_body() -> None:
    assert parse(rows([{"actual_output": 7}]), OUTPUTS).rejected["code"].to_pylist() == ["missing_id"]
    bad = {"metadata": 7, "expected_output": 7}
    assert parse(rows([bad]), SAMPLES).rejected["code"].to_pylist() == ["missing_id"]
    batch = pa.RecordBatch.from_pylist([{"id": None, "metadata": 7, "expected_output": ["a"]}])
    assert parse(Columns(1, batch), SAMPLES).rejected["code"].to_pylist() == ["missing_id"]


def test_a_refused_record_is_read_and_rejected() -> None:
    parsed = parse(Refused(9, "too_large", "line of 9 MB", b"{\xff", "abc"), SAMPLES)
    assert parsed.block is None
    assert parsed.terms == {"samples.read": 1, "samples.rejected.too_large": 1}
    row = parsed.rejected.to_pylist()[0]
    assert (row["location"], row["preview"], row["sha256"]) == ("s.jsonl:9", "{\ufffd", "abc")


def test_a_preview_is_short_and_everything_rejected_fits_its_schema() -> None:
    records = [{"id": "a", "actual_output": "x" * 5000}, b"\xff" * 1000, b"{"]
    parsed = parse(lines(records), OUTPUTS)
    assert parsed.rejected.schema.equals(REJECTED)
    assert max(map(len, parsed.rejected["preview"].to_pylist())) == 200
    parsed.rejected.validate(full=True)


METADATA = [{"k": 3, "lang": "de", "tags": ["a", "b", "a"]}, None, {"k": None, "lang": None, "tags": []}]
SLICES = [(3, ["de"], ["a", "b"]), (0, ["(none)"], ["(none)"]), (0, ["(none)"], ["(none)"])]


def metadata_of(parsed: Parsed) -> list[tuple[int, list[str], list[str]]]:
    return [(row["k"], row["slice:lang"], row["slice:tags"]) for row in parsed.block.to_pylist()]


def test_metadata_reads_alike_as_object_json_struct_and_null() -> None:
    records = [{"id": str(i), "expected_output": ["a"], "metadata": each} for i, each in enumerate(METADATA)]
    texts = [{**record, "metadata": json.dumps(record["metadata"])} for record in records]
    ways = [rows(records), lines(records), rows(texts)]
    ways += [Columns(1, pa.RecordBatch.from_pylist(each)) for each in (records, texts)]
    for raw in ways:
        assert metadata_of(parse(raw, SAMPLES)) == SLICES


def test_metadata_may_be_a_map_or_a_column_of_nothing() -> None:
    base = {"id": ["a", "b"], "expected_output": [["x"], ["x"]]}
    maps = pa.array([[("lang", "de")], None], pa.map_(pa.string(), pa.string()))
    parsed = parse(Columns(1, pa.record_batch({**base, "metadata": maps})), SAMPLES)
    assert metadata_of(parsed) == [(0, ["de"], ["(none)"]), (0, ["(none)"], ["(none)"])]
    for kind in (pa.null(), pa.string(), pa.struct([]), pa.struct([("other", pa.int8())])):
        parsed = parse(Columns(1, pa.record_batch({**base, "metadata": pa.nulls(2, kind)})), SAMPLES)
        assert metadata_of(parsed) == [(0, ["(none)"], ["(none)"])] * 2


@pytest.mark.parametrize("value", [7, "text", [1], True, "[1]", "{", '{"k": NaN}'])
def test_metadata_that_is_no_object_is_a_bad_gold(value: Any) -> None:
    records = [{"id": "a", "expected_output": ["x"], "metadata": value}]
    for raw in (rows(records), lines(records), Columns(1, pa.RecordBatch.from_pylist(records))):
        assert parse(raw, SAMPLES).rejected["code"].to_pylist() == ["bad_gold"]


@pytest.mark.parametrize("k", [0, -1, 2**31, True, 5.0, "5", None, [5], float("nan"), 10**30])
def test_a_k_that_is_no_positive_integer_is_no_k(k: Any) -> None:
    parsed = parse(rows([{"id": "a", "expected_output": [], "metadata": {"k": k}}]), SAMPLES)
    assert parsed.block["k"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("de", ["de"]),
        (None, ["(none)"]),
        ([], ["(none)"]),
        ([None], ["(none)"]),
        (["b", "a", "b", None], ["b", "a"]),
        (7, ["7"]),
        (True, ["true"]),
        ([1, "1", [2]], ["1", "[2]"]),
        ({"b": 1, "a": 2}, ['{"a":2,"b":1}']),
        ("", [""]),
        ("\ud800", ["?"]),
    ],
    ids=repr,
)
def test_slice_values_are_texts(value: Any, expected: list[str]) -> None:
    assert slice_values(value) == expected


NATIVE_SAMPLES = [
    {"id": "a", "expected_output": ["x", "y"], "input": "q", "answer": "z"},
    {"id": "b", "expected_output": ["y"], "input": None, "answer": None},
    {"id": "c", "expected_output": None, "input": None, "answer": "only an answer"},
    {"id": "d", "expected_output": None, "input": None, "answer": None},
    {"id": None, "expected_output": ["x"], "input": None, "answer": None},
]
TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    *(pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.uint8(), pa.int32(), pa.uint64())),
]


@pytest.mark.parametrize("text", TEXTS, ids=str)
@pytest.mark.parametrize("listed", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_every_layout_of_a_table_gives_the_same_blocks(text: pa.DataType, listed: Any) -> None:
    plain_batch = pa.RecordBatch.from_pylist(NATIVE_SAMPLES)
    arrays = []
    for name in plain_batch.schema.names:
        kind = listed(text) if name == "expected_output" else text
        values = plain_batch[name].to_pylist()
        arrays.append(pa.array(_bytes(values) if "binary" in str(text) else values, kind))
    batch = pa.RecordBatch.from_arrays(arrays, plain_batch.schema.names)
    wants = Wants(texts=True)
    expected = seen([parse(Columns(1, plain_batch), SAMPLES, wants)])
    assert expected[2]["samples.rejected.bad_gold"] == expected[2]["samples.rejected.missing_id"] == 1
    assert seen([parse(Columns(1, batch), SAMPLES, wants)]) == expected
    apart = [parse(Columns(i + 1, batch.slice(i, 1)), SAMPLES, wants) for i in range(batch.num_rows)]
    assert seen(apart) == expected
    outputs = batch.select([0, 1]).rename_columns(["id", "retrieved"])
    expected = seen([parse(Columns(1, plain_batch.select([0, 1]).rename_columns(["id", "retrieved"])), OUTPUTS)])
    assert seen([parse(Columns(1, outputs), OUTPUTS)]) == expected


def _bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes(item) for item in value]
    return value.encode() if isinstance(value, str) else value


def test_tables_and_rows_agree_but_for_the_digest() -> None:
    rng = random.Random(3)
    samples = [each for each in random_samples(rng, 200) if isinstance(each["expected_output"], list)]
    samples = [each for each in samples if not any(isinstance(item, list) for item in each["expected_output"])]
    outputs = [{"id": each["id"], "retrieved": ["doc-1", "doc-2", "doc-1"], "error": None} for each in samples]
    outputs[3]["error"], outputs[5]["retrieved"], outputs[7]["retrieved"] = "timeout", [""], None
    for source, records in ((SAMPLES, samples), (OUTPUTS, outputs)):
        batch = pa.RecordBatch.from_pylist(records)
        left, right = (
            seen([parse(raw, source)], ("digest_high", "digest_low")) for raw in (rows(records), Columns(1, batch))
        )
        assert left[0] == right[0]
        assert left[2] == right[2]


def test_columns_that_are_absent_and_columns_of_nulls_are_one_content() -> None:
    narrow = pa.record_batch({"id": ["a"], "expected_output": [["x"]]})
    wide = pa.record_batch(
        {"answer": pa.nulls(1, pa.string()), "id": ["a"], "metadata": pa.nulls(1), "input": pa.nulls(1, pa.int8())}
        | {"expected_output": [["x"]], "unknown": [1]}
    )
    assert seen([parse(Columns(1, narrow), SAMPLES)]) == seen([parse(Columns(1, wide), SAMPLES)])


WRAPPED = [
    (
        {"actual_output": [{"retrieved": ["a"], "answer": "x"}]},
        {"actual_output": [{"retrieved": ["a"], "answer": "y"}]},
    ),
    ({"retrieved": [["a"]], "answer": ["x"]}, {"retrieved": [["a"]], "answer": ["y"]}),
    ({"retrieved": [["a"]], "usage": [{"t": 1}]}, {"retrieved": [["a"]], "usage": [{"t": 2}]}),
    ({"actual_output": [{"retrieved": ["a"], "error": "x"}]}, {"actual_output": [{"retrieved": ["a"], "error": "y"}]}),
    ({"retrieved": [[{"id": "a", "text": "x"}]]}, {"retrieved": [[{"id": "a", "text": "y"}]]}),
]


@pytest.mark.parametrize(("one", "other"), WRAPPED, ids=repr)
def test_everything_in_a_native_output_is_part_of_its_content(one: Any, other: Any) -> None:
    left, right = (parse(Columns(1, pa.record_batch({"id": ["q"], **each})), OUTPUTS).block for each in (one, other))
    assert left["docs"].to_pylist() == right["docs"].to_pylist() == [["a"]]
    assert left["digest_high"].to_pylist() != right["digest_high"].to_pylist()


def test_an_error_within_a_native_output_counts() -> None:
    for error in ("timeout", {"code": 1}, True):
        batch = pa.RecordBatch.from_pylist([{"id": "q", "actual_output": {"retrieved": None, "error": error}}])
        assert parse(Columns(1, batch), OUTPUTS).block["error"].to_pylist() == [True]
    for kind, value in ((pa.string(), ""), (pa.bool_(), False), (pa.float64(), float("nan")), (pa.null(), None)):
        batch = pa.record_batch({"id": ["q"], "retrieved": [["a"]], "error": pa.array([value], kind)})
        assert parse(Columns(1, batch), OUTPUTS).block["error"].to_pylist() == [False]


def broken_texts() -> pa.Array:
    offsets, data = np.array([0, 1, 2], np.int32), b"\xffb"
    return pa.StringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(data))


@pytest.mark.parametrize("encode", [False, True])
def test_text_that_is_not_utf8_costs_its_record_only(encode: bool) -> None:
    texts = broken_texts()
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1]), texts) if encode else texts
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts)
    samples = [
        pa.record_batch({"id": texts, "expected_output": [["x"], ["x"]]}),
        pa.record_batch({"id": ["a", "b"], "expected_output": lists}),
        pa.record_batch({"id": ["a", "b"], "expected_output": [["x"], ["x"]], "answer": texts}),
    ]
    for batch in samples:
        parsed = parse(Columns(1, batch), SAMPLES)
        assert [(row["location"], row["code"]) for row in parsed.rejected.to_pylist()] == [("s.jsonl:1", "bad_utf8")]
        assert parsed.block.filter(pa.array(parsed.block["defect"].to_numpy() == 0)).num_rows == 1
        parsed.block.validate(full=True)
    entries = pa.StructArray.from_arrays([pa.array(["x", "y"]), texts], ["id", "text"])
    for column in (lists, pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries), texts):
        parsed = parse(Columns(1, pa.record_batch({"id": ["a", "b"], "retrieved": column})), OUTPUTS)
        assert parsed.rejected["code"].to_pylist()[0] == "bad_utf8"
        assert parsed.block["sample_id"].to_pylist() == ["a", "b"]
        assert parsed.block["defect"].to_pylist()[0] != 0


def test_an_input_may_hold_any_bytes_and_any_time() -> None:
    odd = [
        pa.array([b"\xff"]),
        broken_texts().slice(0, 1),
        pa.array([2**62], pa.timestamp("s")),
        pa.array([1], pa.timestamp("s", "Mars/Olympus")),
        pa.array([1], pa.duration("ns")),
        pa.array([2**31 - 1], pa.date32()),
        pa.array([b"0123456789abcdef"], pa.binary(16)),
        pa.array([{"a": [b"\xff"]}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    ]
    for column in odd:
        for gold in (["x"], [""]):
            batch = pa.record_batch({"id": ["a"], "expected_output": [gold], "input": column})
            assert parse(Columns(1, batch), SAMPLES).terms["samples.read"] == 1


@pytest.mark.parametrize(
    ("schema", "side", "words"),
    [
        ({}, "samples", "expected a column `id`, found no columns"),
        ({"key": pa.string()}, "samples", "`id`, found key: string"),
        ({"id": pa.float64(), "expected_output": pa.string()}, "samples", "strings or integers, found double"),
        ({"id": pa.list_(pa.string()), "expected_output": pa.string()}, "samples", "found list"),
        ({"id": pa.string()}, "samples", "`expected_output` or `answer`"),
        ({"id": pa.string()}, "outputs", "`actual_output` or `actualOutput` or `retrieved`"),
        ({"id": pa.string(), "expected_output": pa.float64()}, "samples", "lists, maps or JSON text, found double"),
        ({"id": pa.string(), "retrieved": pa.int64()}, "outputs", "found int64"),
    ],
)
def test_a_table_that_will_not_do_is_told_why(schema: dict[str, pa.DataType], side: str, words: str) -> None:
    problem = check_columns(pa.schema(list(schema.items())), side)
    assert problem is not None
    assert words in problem


def test_a_column_that_is_there_twice_will_not_do() -> None:
    schema = pa.schema([("id", pa.string()), ("id", pa.int64()), ("expected_output", pa.string())])
    assert "one column `id`" in (check_columns(schema, "samples") or "")
    with pytest.raises(BrokenInput, match=r"s\.jsonl: expected one column"):
        parse(
            Columns(1, pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)), SAMPLES
        )


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.null(), pa.dictionary(pa.int8(), pa.int64()), pa.string_view()], ids=str
)
def test_ids_may_be_integers_or_even_all_null(kind: pa.DataType) -> None:
    assert check_columns(pa.schema([("id", kind), ("expected_output", pa.null())]), "samples") is None
    batch = pa.record_batch({"id": pa.nulls(2, kind), "expected_output": pa.nulls(2)})
    assert parse(Columns(1, batch), SAMPLES).terms == {"samples.read": 2, "samples.rejected.missing_id": 2}


def test_no_records_make_an_empty_block_of_the_right_schema() -> None:
    empty = pa.record_batch({"id": [], "expected_output": [], "retrieved": []})
    for raw in (rows([]), lines([]), Columns(1, empty)):
        assert parse(raw, SAMPLES).block.schema.equals(sample_block(WANTS.slice_by, False))
        assert parse(raw, OUTPUTS).block.schema.equals(output_block(False))
        for source in (SAMPLES, OUTPUTS):
            assert parse(raw, source).block.num_rows == 0
            assert parse(raw, source).rejected is None


def test_a_sample_s_k_that_is_no_cutoff_is_noted() -> None:
    records = [
        {"id": f"q{i}", "expected_output": ["a"], "metadata": {"k": k}} for i, k in enumerate([3, None, "3", 0, 5.0])
    ]
    parsed = parse_samples(Rows(list(range(5)), records), Source("samples", 0, "s"), Wants())
    assert parsed.terms["noted.samples.ignored_k"] == 3
