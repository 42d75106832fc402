"""JSON lines and Python rows to records, with a code for everything that is wrong with one."""

import json
from collections import UserDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.decode import (
    NonFinite,
    OutputRecord,
    SampleRecord,
    canonical_json,
    decode_lines,
    decode_rows,
    doc_id,
    json_value,
    nesting_exceeds,
)
from transforms.limits import Limits
from transforms.records import Lines, Rows


def lines(*data: bytes) -> Lines:
    return Lines(list(range(1, len(data) + 1)), list(data))


def nested(depth: int, inner: str = "1") -> str:
    """Arrays and objects in turn, as real records nest."""
    opened = ["[" if i % 2 else '{"a":' for i in range(depth)]
    closed = ["]" if i % 2 else "}" for i in range(depth)]
    return "".join(opened) + inner + "".join(reversed(closed))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", "bad_json"),
        (b'{"id": "a"} {"id": "b"}', "bad_json"),
        (b'{"id": "a"', "bad_json"),
        (b"[1]", "bad_json"),
        (b"null", "bad_json"),
        (b'"NaN"', "bad_json"),
        (b"[NaN]", "bad_json"),
        (b'{"id": "a", "note": "NaN"', "bad_json"),
        (b'{"id": "a", "note": "\\ud800 NaN"}', "bad_json"),
        (b'{"id": "\xff"}', "bad_utf8"),
        (b'{"id": "a", "x": "\xed\xa0\x80"}', "bad_utf8"),
        (b"[" * 100_000, "bad_json"),
        (b'{"unknown": ' + b"[" * 100_000, "too_deep"),
    ],
)
def test_a_line_that_is_no_object_has_no_id(line: bytes, code: str) -> None:
    decoded = decode_lines(lines(b'{"id": "good"}', line), SampleRecord)
    assert [flaw.code for flaw in decoded.flaws.values()] == [code]
    assert [record.id for record in decoded.records] == ["good", None]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400", "1" * 400 + ".0"])
@pytest.mark.parametrize("field", ["actual_output", "latency_ms", "unknown"])
def test_a_number_that_is_not_finite_leaves_the_id_readable(number: str, field: str) -> None:
    decoded = decode_lines(lines(f'{{"id": "a", "{field}": [{number}]}}'.encode()), OutputRecord)
    if field == "unknown" and number[-1].isdigit():
        assert not decoded.flaws  # good grammar, and nobody asks for its value
        return
    assert decoded.flaws[0].code == "non_finite"
    assert "writer" in decoded.flaws[0].message
    assert decoded.records[0].id == "a"


def test_words_like_nan_inside_strings_are_only_words() -> None:
    decoded = decode_lines(lines(b'{"id": "NaN", "input": "Infinity 1e999"}'), SampleRecord)
    assert not decoded.flaws


@pytest.mark.parametrize("depth", [1, 2, 63, 64, 65, 66, 130, 900])
def test_lines_and_rows_agree_on_how_deep_is_too_deep(depth: int) -> None:
    text = f'{{"id": "a", "input": {nested(depth - 1)}}}' if depth > 1 else '{"id": "a"}'
    from_line = decode_lines(lines(text.encode()), SampleRecord)
    from_row = decode_rows(Rows([1], [json.loads(text)]), SampleRecord)
    expected = ["too_deep"] if depth > Limits().depth else []
    assert [flaw.code for flaw in from_line.flaws.values()] == expected
    assert [flaw.code for flaw in from_row.flaws.values()] == expected
    assert from_line.records[0].id == from_row.records[0].id == "a"


def test_too_deep_counts_in_fields_that_are_not_read() -> None:
    text = f'{{"id": "a", "unknown": {nested(80)}}}'
    assert decode_lines(lines(text.encode()), SampleRecord).flaws[0].code == "too_deep"
    assert decode_rows(Rows([1], [json.loads(text)]), SampleRecord).flaws[0].code == "too_deep"


@pytest.mark.parametrize("text", ['"[[[[["', '"]]]]"', r'"\"[[[["', r'"\\"', '"{[}]"'])
def test_brackets_inside_strings_do_not_nest(text: str) -> None:
    flat = "[" + ",".join([text] * 50) + "]"
    assert not nesting_exceeds(flat.encode(), 3)
    assert nesting_exceeds(nested(4, flat).encode(), 4)
    assert not nesting_exceeds(nested(4, flat).encode(), 5)


@given(st.recursive(st.none() | st.text(max_size=3), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_depth_is_measured_exactly(value: Any) -> None:
    def depth(value: Any) -> int:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inside is None else 1 + max(map(depth, inside), default=0)

    text = json.dumps(value, ensure_ascii=False)
    if not any(bracket in string for string in text.split('"')[1::2] for bracket in "[]{}"):
        assert nesting_exceeds(text.encode(), depth(value)) is False
        assert depth(value) == 0 or nesting_exceeds(text.encode(), depth(value) - 1) is True


def test_a_value_that_holds_itself_is_too_deep_at_once() -> None:
    knot: list[Any] = []
    knot += [knot] * 10
    pyramid: Any = "x"
    for _ in range(100):
        pyramid = [pyramid, pyramid]
    decoded = decode_rows(Rows([1, 2], [{"id": "a", "input": knot}, {"id": "b", "input": pyramid}]), SampleRecord)
    assert [flaw.code for flaw in decoded.flaws.values()] == ["too_deep", "too_deep"]
    assert [record.id for record in decoded.records] == ["a", "b"]


@pytest.mark.parametrize("row", [None, 7, "text", ["id"], b"bytes", {"id"}])
def test_a_row_that_is_no_object_is_refused(row: Any) -> None:
    assert decode_rows(Rows([1], [row]), SampleRecord).flaws[0].code == "bad_json"


def test_any_mapping_is_an_object_and_any_array_a_list() -> None:
    row = UserDict({"id": "a", "expected_output": np.array(["x", "y"]), 7: "a key that is no text"})
    record = decode_rows(Rows([1], [row]), SampleRecord).records[0]
    assert (record.id, record.expected_output) == ("a", ["x", "y"])
    ragged = np.array([np.array(["x"]), np.array(["y", "z"])], dtype=object)
    record = decode_rows(Rows([1], [{"expected_output": ragged}]), SampleRecord).records[0]
    assert record.expected_output == [["x"], ["y", "z"]]


def test_equal_content_is_spelled_alike() -> None:
    assert canonical_json({"b": 1, "a": [2]}) == canonical_json({"a": [2], "b": 1}) == '{"a":[2],"b":1}'
    assert canonical_json({2: 1, "a": [2]}) == canonical_json({"a": [2], 2: 1})


ODD = [10**5000, "\ud800", {(1, 2): 3}, {None: 1}, object(), {1, 2}, 1j, np.float32(1), b"\xff"]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_everything_can_be_spelled_as_text(value: Any) -> None:
    for wrapped in (value, [value], {"a": value}):
        canonical_json(wrapped).encode()


def test_different_content_is_spelled_differently() -> None:
    values = [10**5000, 10**5000 + 1, "\ud800", "\ud801", {(1,): 1}, {(2,): 1}, {1: [2]}, {1: [3]}, {1: 2}, {2: 1}]
    assert len(set(map(canonical_json, values))) == len(values)


def test_json_inside_a_record_says_what_is_wrong_with_it() -> None:
    assert json_value('{"a": [1]}') == {"a": [1]}
    with pytest.raises(NonFinite):
        json_value("[NaN]")
    for text in ("", "[", "[citation needed]", "[" * 100_000, "\ud800", "[NaN"):
        with pytest.raises(ValueError) as error:
            json_value(text)
        assert not isinstance(error.value, NonFinite)


def test_integers_become_ids_and_are_noted() -> None:
    noted: set[str] = set()
    assert [doc_id(item, noted) for item in ("a", "é")] == ["a", "é"]
    assert not noted
    assert [doc_id(item, noted) for item in (7, -1, np.int64(7), np.uint8(3), 10**30)] == [
        "7",
        "-1",
        "7",
        "3",
        str(10**30),
    ]
    assert noted == {"integer_ids"}


@pytest.mark.parametrize("item", [None, True, np.True_, 1.0, [], {}, b"a", "\ud800", pytest.param(10**5000, id="huge")])
def test_other_things_are_no_document_ids(item: Any) -> None:
    with pytest.raises(ValueError):
        doc_id(item, set())
