"""`actual_output` in every shape, from records and from Arrow columns, and the ranks of what it holds."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.decode import OutputRecord
from transforms.layouts import plain
from transforms.retrieved import Ranking, Retrieved, rank, read_retrieved, read_retrieved_column


def read(*records: dict[str, Any]) -> Retrieved:
    return read_retrieved([OutputRecord(**record) for record in records], {})


def column(values: list[Any], kind: pa.DataType | None = None) -> Retrieved:
    lists = plain(pa.array(values, kind))[0]
    retrieved = read_retrieved_column(lists, np.zeros(len(values), np.bool_), [])
    assert retrieved is not None
    return retrieved


def seen(retrieved: Retrieved, i: int = 0) -> Any:
    if i in retrieved.flaws:
        return retrieved.flaws[i].code
    return retrieved.docs.to_pylist()[retrieved.offsets[i] : retrieved.offsets[i + 1]]


LIST = ["b", "a", "b"]
BODIES: list[dict[str, Any]] = [
    {"actual_output": LIST},
    {"actual_output": tuple(LIST)},
    {"actual_output": {"retrieved": LIST}},
    {"actual_output": json.dumps(LIST)},
    {"actual_output": json.dumps({"retrieved": LIST})},
    {"actual_output": json.dumps(json.dumps(LIST))},
    {"actual_output": {"retrieved": json.dumps(LIST)}},
    {"actualOutput": LIST},
    {"actualOutput": json.dumps({"retrieved": LIST})},
    {"retrieved": LIST},
    {"retrieved": json.dumps(LIST)},
    {"actual_output": "null", "retrieved": LIST},
    {"actual_output": [{"id": "b", "text": "t", "score": 1.5}, {"id": "a", "score": "high"}, "b"]},
    {"actual_output": LIST, "error": None},
    {"actual_output": LIST, "error": ""},
    {"actual_output": LIST, "error": False},
    {"actual_output": LIST, "error": np.False_},
    {"actual_output": LIST, "error": float("nan")},
]


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_every_wrapping_is_opened(body: dict[str, Any]) -> None:
    retrieved = read(body)
    assert seen(retrieved) == LIST
    assert not retrieved.error.any()


def test_integers_are_ids_and_noted_once_a_list() -> None:
    values = [[7, 3], [], [9]]
    for retrieved in (read(*({"retrieved": value} for value in values)), column(values)):
        assert [seen(retrieved, i) for i in range(3)] == [["7", "3"], [], ["9"]]
        assert retrieved.noted == {"integer_ids": 2}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "bad_output"),
        ({"actual_output": None}, "bad_output"),
        ({"actual_output": 7}, "bad_output"),
        ({"actual_output": True}, "bad_output"),
        ({"actual_output": ""}, "bad_output"),
        ({"actual_output": "some text"}, "bad_output"),
        ({"actual_output": '{"retrieved"'}, "bad_output"),
        ({"actual_output": "[" * 100_000}, "bad_output"),
        ({"actual_output": '"text"'}, "bad_output"),
        ({"actual_output": {"hits": []}}, "bad_output"),
        ({"actual_output": {"retrieved": None}}, "bad_output"),
        ({"actual_output": {"retrieved": 42}}, "bad_output"),
        ({"actual_output": {"retrieved": "text"}}, "bad_output"),
        ({"actual_output": {"retrieved": {"a": 1}}}, "bad_output"),
        ({"actual_output": [None]}, "bad_output"),
        ({"actual_output": ["a", ""]}, "bad_output"),
        ({"actual_output": ["a", "\u00a0\t"]}, "bad_output"),
        ({"actual_output": ["\ud800"]}, "bad_output"),
        ({"actual_output": [True]}, "bad_output"),
        ({"actual_output": [1.5]}, "bad_output"),
        ({"actual_output": [["a"]]}, "bad_output"),
        ({"actual_output": [{"text": "no id"}]}, "bad_output"),
        ({"actual_output": [{"id": None}]}, "bad_output"),
        ({"actual_output": [{"id": " "}]}, "bad_output"),
        ({"actual_output": [{"id": "a", "score": float("nan")}]}, "non_finite"),
        ({"actual_output": [{"id": "a", "score": float("-inf")}]}, "non_finite"),
        ({"actual_output": [{"id": "a", "score": 10**400}]}, "non_finite"),
        ({"actual_output": [{"id": "a", "score": np.float32("inf")}]}, "non_finite"),
        ({"actual_output": '[{"id": "a", "score": NaN}]'}, "non_finite"),
        ({"actual_output": '{"retrieved": [], "usage": 1e999}'}, "non_finite"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_bad_output_spoils_no_other(body: dict[str, Any], code: str) -> None:
    retrieved = read({"retrieved": ["x"]}, body, {"retrieved": ["y", "z"]})
    assert [seen(retrieved, i) for i in range(3)] == [["x"], code, ["y", "z"]]
    assert not retrieved.error.any()


@pytest.mark.parametrize(
    "body",
    [
        {"error": "timeout"},
        {"error": True},
        {"error": {"code": 500}},
        {"error": 0},
        {"error": "timeout", "actual_output": None},
        {"error": "timeout", "actual_output": "Traceback (most recent call last)"},
        {"error": "timeout", "actual_output": {"retrieved": "none"}},
        {"error": "timeout", "actual_output": 7},
        {"actual_output": {"error": "timeout"}},
        {"actual_output": {"error": "timeout", "retrieved": "none"}},
        {"actual_output": '{"error": "timeout"}'},
        {"error": "timeout", "actual_output": []},
    ],
    ids=repr,
)
def test_an_error_needs_no_list(body: dict[str, Any]) -> None:
    retrieved = read(body)
    assert retrieved.error.tolist() == [True]
    assert seen(retrieved) == []


def test_a_text_that_is_no_string_is_no_text() -> None:
    entries = [{"id": "a", "text": 7}, {"id": "b", "text": "\ud800x"}, {"id": "c"}]
    retrieved = read({"retrieved": entries})
    assert retrieved.texts is not None
    assert retrieved.texts.to_pylist() == [None, "?x", None]


STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary_view(), pa.dictionary(pa.uint16(), pa.string())]
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]


@pytest.mark.parametrize("text", STRINGS, ids=str)
@pytest.mark.parametrize("listed", LISTS)
def test_native_lists_read_like_python_ones(text: pa.DataType, listed: Any) -> None:
    values: list[Any] = [["b", "a", "b"], [], None, ["a", None], ["", "a"]]
    if "binary" in str(text):
        values = [each and [item and item.encode() for item in each] for each in values]
    expected = [["b", "a", "b"], [], "bad_output", "bad_output", "bad_output"]
    retrieved = column(values, listed(text))
    assert [seen(retrieved, i) for i in range(5)] == expected
    entry = pa.struct([("id", text), ("text", text), ("score", pa.float32())])
    entries = [each if each is None else [{"id": item, "text": item} for item in each] for each in values]
    retrieved = column(entries, listed(entry))
    assert [seen(retrieved, i) for i in range(5)] == expected
    assert rank(retrieved, IDS, with_texts=True).texts.to_pylist()[0] == ["b", "a"]
    assert len(retrieved.content()) == 4


IDS = pa.array([f"q-{i}" for i in range(5)])


def test_native_entries_may_be_null_and_scores_large_or_wild() -> None:
    entry = pa.struct([("id", pa.string()), ("score", pa.int64())])
    assert seen(column([[{"id": "a", "score": 2**60 + 1}]], pa.list_(entry))) == ["a"]
    assert seen(column([[{"id": "a", "score": 1}, None]], pa.list_(entry))) == "bad_output"
    wild = [[{"id": "a", "score": score}] for score in (1.0, None, float("nan"), float("inf"))]
    retrieved = column(wild)
    assert [seen(retrieved, i) for i in range(4)] == [["a"], ["a"], "non_finite", "non_finite"]


@pytest.mark.parametrize("values", [[["a"], None], [[{"id": "a", "text": "t"}], [None]], [[3], [None]]], ids=repr)
def test_a_slice_of_a_column_reads_like_a_column(values: list[Any]) -> None:
    whole = pa.array([*values, values[0], values[0]])
    retrieved = read_retrieved_column(whole.slice(1, 2), np.zeros(2, np.bool_), [])
    assert retrieved is not None
    assert [seen(retrieved, i) for i in range(2)] == ["bad_output", ["3"] if values[0] == [3] else ["a"]]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.float64()), pa.list_(pa.struct([("text", pa.string())])), pa.null()], ids=str
)
def test_a_column_of_other_things_is_left_to_the_records(kind: pa.DataType) -> None:
    assert read_retrieved_column(pa.nulls(2, kind), np.zeros(2, np.bool_), []) is None


def ranked(lists: list[list[str]], depth: int | None = None) -> Ranking:
    ids = pa.array([str(i) for i in range(len(lists))], pa.string())
    return rank(read(*({"retrieved": each} for each in lists)), ids, depth)


@given(st.lists(st.lists(st.sampled_from("abcdefé"), max_size=12), max_size=8), st.none() | st.integers(1, 8))
def test_ranks_count_each_document_at_its_first_place(lists: list[list[str]], depth: int | None) -> None:
    found = ranked(lists, depth)
    for i, items in enumerate(lists):
        firsts = list(dict.fromkeys(items))
        assert found.length[i] == len(firsts)
        assert found.repeats[i] == len(items) - len(firsts)
        assert found.docs[i].as_py() == firsts[:depth]
        assert found.ranks[i].as_py() == list(range(1, len(firsts[:depth]) + 1))


def test_a_million_entries_in_one_list_are_ranked() -> None:
    entries = np.arange(1_000_000).astype(str)
    entries[-1] = "0"
    retrieved = column([entries.tolist(), ["a"]])
    found = rank(retrieved, pa.array(["p", "q"]), depth=10)
    assert found.length.tolist() == [999_999, 1]
    assert found.docs.to_pylist() == [[str(i) for i in range(10)], ["a"]]
