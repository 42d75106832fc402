"""`expected_output` in every shape, from Python values and from Arrow columns."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from transforms.gold import Gold, Kind, read_gold, read_gold_column
from transforms.layouts import plain


def column(values: list[Any], kind: pa.DataType | None = None) -> Gold:
    return read_gold_column(plain(pa.array(values, kind))[0])


def seen(gold: Gold, i: int = 0) -> tuple[Kind, Any]:
    """Sample i of the gold as a person would write it."""
    if i in gold.flaws:
        return Kind.NONE, gold.flaws[i].code
    span = slice(gold.offsets[i], gold.offsets[i + 1])
    docs = gold.docs.to_pylist()[span]
    kind = Kind(int(gold.kind[i]))
    if kind == Kind.GRADED:
        return kind, dict(zip(docs, gold.gains[span].tolist(), strict=True))
    if kind == Kind.GROUPS:
        return kind, sorted(zip(gold.group[span].tolist(), docs, strict=True))
    return kind, gold.span[i].as_py() if kind == Kind.TEXT else docs


SHAPES: list[tuple[Any, Kind, Any]] = [
    (["a", "b"], Kind.IDS, ["a", "b"]),
    (("a", "b"), Kind.IDS, ["a", "b"]),
    (["b", "a", "b"], Kind.IDS, ["b", "a"]),
    ([3, 9], Kind.IDS, ["3", "9"]),
    ([np.int64(3), "3"], Kind.IDS, ["3"]),
    ([], Kind.IDS, []),
    ({"a": 3, "b": 0.5, "c": 0, "d": -1}, Kind.GRADED, {"a": 3.0, "b": 0.5, "c": 0.0, "d": -1.0}),
    ({"a": "2", "b": " 1e1 "}, Kind.GRADED, {"a": 2.0, "b": 10.0}),
    ({"a": np.float32(0.5)}, Kind.GRADED, {"a": 0.5}),
    ({7: 1}, Kind.GRADED, {"7": 1.0}),
    ({}, Kind.GRADED, {}),
    ([["a", "b"], ["c"]], Kind.GROUPS, [(0, "a"), (0, "b"), (1, "c")]),
    ([["a"], ["a", "b"], []], Kind.GROUPS, [(0, "a"), (1, "a"), (1, "b")]),
    ([["a"], [], ["b"]], Kind.GROUPS, [(0, "a"), (2, "b")]),
    ([[]], Kind.GROUPS, []),
    ("Paris", Kind.TEXT, "Paris"),
    ("", Kind.TEXT, ""),
    ("[citation needed]", Kind.TEXT, "[citation needed]"),
    ("{curly}", Kind.TEXT, "{curly}"),
    ('"quoted"', Kind.TEXT, '"quoted"'),
    ("\ud800", Kind.TEXT, "?"),
    (None, Kind.NONE, []),
]


@pytest.mark.parametrize(("value", "kind", "content"), SHAPES, ids=repr)
def test_every_shape_is_read(value: Any, kind: Kind, content: Any) -> None:
    assert seen(read_gold([value])) == (kind, content)


JSON_SHAPES = [shape for shape in SHAPES if isinstance(shape[0], (list, dict)) and "np." not in repr(shape[0])]


@pytest.mark.parametrize(("value", "kind", "content"), JSON_SHAPES, ids=repr)
def test_every_shape_is_read_from_json_text(value: Any, kind: Kind, content: Any) -> None:
    text = json.dumps(value)
    assert seen(read_gold([f" {text}\n"])) == (kind, content)
    assert seen(column([text])) == (kind, content)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (7, "bad_gold"),
        (True, "bad_gold"),
        (1.5, "bad_gold"),
        ({"a"}, "bad_gold"),
        ([None], "bad_gold"),
        ([True], "bad_gold"),
        ([1.0], "bad_gold"),
        (["a", ""], "bad_gold"),
        (["a", " \t"], "bad_gold"),
        (["\u00a0"], "bad_gold"),
        (["\u3000\u2003"], "bad_gold"),
        (["\ud800"], "bad_gold"),
        ([{"id": "a"}], "bad_gold"),
        ([["a"], "b"], "bad_gold"),
        ([["a"], None], "bad_gold"),
        ([["a"], [["b"]]], "bad_gold"),
        ([["a", ""]], "bad_gold"),
        ({"a": None}, "bad_gold"),
        ({"a": True}, "bad_gold"),
        ({"a": np.True_}, "bad_gold"),
        ({"a": "high"}, "bad_gold"),
        ({"": 1}, "bad_gold"),
        ({None: 1}, "bad_gold"),
        ({"1": 1, 1: 2}, "bad_gold"),
        ({"a": float("nan")}, "non_finite"),
        ({"a": float("inf")}, "non_finite"),
        ({"a": np.float64("nan")}, "non_finite"),
        ({"a": "nan"}, "non_finite"),
        ({"a": 10**400}, "non_finite"),
        ('{"a": NaN}', "non_finite"),
        ('{"a": 1e999}', "non_finite"),
        ("[1.5]", "bad_gold"),
        ('[""]', "bad_gold"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_bad_gold_spoils_no_other(value: Any, code: str) -> None:
    gold = read_gold([["x"], value, {"y": 2}, [["z"]]])
    assert seen(gold, 1) == (Kind.NONE, code)
    assert [seen(gold, i)[1] for i in (0, 2, 3)] == [["x"], {"y": 2.0}, [(0, "z")]]
    assert len(gold.flaws) == 1


def test_ids_may_be_anything_that_is_not_blank() -> None:
    ids = ["../../etc", "a\0b", "\x1b[31m", "é", "\u00a0x", "\u200b", "</script>", "=HYPERLINK()", " a "]
    assert seen(read_gold([ids])) == (Kind.IDS, ids)


STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]


@pytest.mark.parametrize("text", STRINGS, ids=str)
@pytest.mark.parametrize("listed", LISTS)
def test_native_lists_read_like_python_ones(text: pa.DataType, listed: Any) -> None:
    values = [["a", "b"], None, [], ["b", "b"], ["a", None], [" "]]
    whole, slowly = column(values, listed(text)), read_gold(values)
    assert [seen(whole, i) for i in range(6)] == [seen(slowly, i) for i in range(6)]
    groups = [[["a"], ["b", "a"]], None, [], [[]], [["a"], None], [["", "a"]]]
    whole, slowly = column(groups, listed(listed(text))), read_gold(groups)
    for i in range(6):
        assert seen(whole, i)[1] == seen(slowly, i)[1], i


def test_native_lists_of_fixed_size_read_like_python_ones() -> None:
    values = [["a", "b"], None, ["c", "c"]]
    whole = column(values, pa.list_(pa.string(), 2))
    assert [seen(whole, i)[1] for i in range(3)] == [["a", "b"], [], ["c"]]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())], ids=str)
def test_native_integer_ids_are_cast_and_noted_once_a_sample(kind: pa.DataType) -> None:
    values = [[3, 9], [], [7], None]
    for gold in (column(values, pa.list_(kind)), read_gold(values)):
        assert [seen(gold, i)[1] for i in range(4)] == [["3", "9"], [], ["7"], []]
        assert gold.noted == {"integer_ids": 2}


@pytest.mark.parametrize("gain", [pa.int8(), pa.float32(), pa.float64(), pa.decimal128(5, 2)], ids=str)
def test_native_maps_read_like_python_ones(gain: pa.DataType) -> None:
    values = [[("a", 3), ("b", 0)], None, [], [("a", None)], [("a", 1), ("a", 2)], [("", 1)]]
    gold = column(values, pa.map_(pa.string(), gain))
    assert [seen(gold, i)[1] for i in range(6)] == [{"a": 3.0, "b": 0.0}, [], {}, "bad_gold", "bad_gold", "bad_gold"]


def test_native_gains_must_be_finite() -> None:
    gold = column([[("a", 1.0)], [("a", float("nan"))], [("a", float("inf"))]], pa.map_(pa.string(), pa.float64()))
    assert [seen(gold, i)[1] for i in range(3)] == [{"a": 1.0}, "non_finite", "non_finite"]


def test_a_struct_is_a_map_whose_absent_keys_are_null() -> None:
    gold = column([{"a": 1}, {"b": 2}, None, {}])
    assert [seen(gold, i)[1] for i in range(4)] == [{"a": 1.0}, {"b": 2.0}, [], {}]


@pytest.mark.parametrize("start", range(5))
def test_a_slice_of_a_column_reads_like_a_column(start: int) -> None:
    columns = [
        pa.array([["a"], None, ["b", "b"], [""], ["c"]]),
        pa.array([[("a", 1)], None, [("b", 2)], [], [("c", 3)]], pa.map_(pa.string(), pa.int8())),
        pa.array([[["a"], ["b"]], None, [[]], [["c", "d"]], [[""]]]),
        pa.array([{"a": 1}, None, {"b": 1}, {}, {"a": 2, "b": 1}]),
    ]
    for whole in columns:
        expected = [seen(read_gold_column(whole), i) for i in range(start, 5)]
        part = read_gold_column(whole.slice(start))
        assert [seen(part, i) for i in range(5 - start)] == expected


@pytest.mark.parametrize(
    "kind",
    [pa.null(), pa.string(), pa.list_(pa.null()), pa.list_(pa.string()), pa.map_(pa.string(), pa.int8())],
    ids=str,
)
def test_a_column_of_nothing_is_read(kind: pa.DataType) -> None:
    for n in (0, 2):
        gold = read_gold_column(pa.nulls(n, kind))
        assert gold.kind.tolist() == [Kind.NONE] * n
        assert gold.columns()["docs"].to_pylist() == [[]] * n
