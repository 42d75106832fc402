"""FAULTS.md rows 5 to 9 and 17 to 20: single records that are broken, nameless, or there more than once."""

import json
from typing import Any

import pytest

from .driving import OUTPUT, SAMPLE, Desk

DEEP = b'{"id": "q-1", "expected_output": ["d-1"], "retrieved": ["d-1"], "metadata": ' + b"[" * 70 + b"]" * 70 + b"}\n"
BODY = {"expected_output": ["d-1"], "retrieved": ["d-1"]}


def check_rejected(desk: Desk, side: str, bad: Any, code: str, message: str = "") -> None:
    """The bad record goes to `rejected` with its place, the good one is scored; past --max-rejects nothing is."""
    good = SAMPLE if side == "samples" else OUTPUT
    desk.write(f"{side}.jsonl", {**good, "id": "good"}, bad)
    other = "outputs" if side == "samples" else "samples"
    desk.write(f"{other}.jsonl", {**(OUTPUT if side == "samples" else SAMPLE), "id": "good"})
    ended = desk.refuses(3, f"1 of 2 {side} rejected (1 {code})", "--max-rejects")
    assert "/rejected" in ended.err
    ledger = desk.commits("--max-rejects", "50%")
    assert ledger["rejected"][side] == {code: 1} and ledger[side]["read"] == 2
    assert ledger["samples"]["joined"] == 1
    [row] = desk.rejected()
    assert row["source"] == side and row["code"] == code and row["location"].endswith(f"{side}.jsonl:2")
    assert message in row["message"] and len(row["preview"]) <= 200 and len(row["sha256"]) == 64
    seen = desk.validate("--max-rejects", "50%")
    assert seen.code == 0 and f"  {code}: 1\n" in seen.out and f"{side}.jsonl:2: " in seen.out


SIDES = pytest.mark.parametrize("side", ["samples", "outputs"])


@SIDES
def test_row_05_invalid_utf_8_is_rejected(desk: Desk, side: str) -> None:
    check_rejected(desk, side, b'{"id": "q-\xff", "expected_output": ["d-1"]}\n', "bad_utf8", "not UTF-8")


@SIDES
@pytest.mark.parametrize("line", [b'{"id": "q-1", \n', b'{"id": "q-1"} {"id": "q-2"}\n', b"[1]\n", b"null\n", b'"'])
def test_row_06_malformed_json_is_rejected(desk: Desk, side: str, line: bytes) -> None:
    check_rejected(desk, side, line, "bad_json")


@SIDES
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_row_07_numbers_that_are_not_finite_are_rejected_with_a_hint_at_the_writer(
    desk: Desk, side: str, number: bytes
) -> None:
    line = b'{"id": "q-1", "expected_output": {"d-1": %s}, "retrieved": [{"id": "d-1", "score": %s}]}\n'
    check_rejected(desk, side, line % (number, number), "non_finite", "have the writer")


@SIDES
def test_row_08_nesting_deeper_than_64_is_rejected(desk: Desk, side: str) -> None:
    check_rejected(desk, side, DEEP, "too_deep", "64")


@SIDES
@pytest.mark.parametrize("end", [b"\n", b"\r"], ids=["a long line", "CR only"])
def test_row_09_a_line_over_8_mib_is_rejected(desk: Desk, side: str, end: bytes) -> None:
    record = json.dumps({"id": "q-1", **BODY}).encode() + end
    line = b'{"id": "' + b"x" * (9 << 20) + b'"}\n' if end == b"\n" else record * ((9 << 20) // len(record))
    check_rejected(desk, side, line, "too_large")


@SIDES
@pytest.mark.parametrize(
    ("identity", "code"),
    [
        ({}, "missing_id"), ({"id": None}, "missing_id"), ({"id": ""}, "missing_id"), ({"id": " \t"}, "missing_id"),
        ({"id": "x" * 513}, "bad_id"), ({"id": "a\x00b"}, "bad_id"), ({"id": "a\x1b[31mb"}, "bad_id"),
        ({"id": "a\x85b"}, "bad_id"), ({"id": True}, "bad_id"), ({"id": 1.5}, "bad_id"), ({"id": ["q"]}, "bad_id"),
    ],
)  # fmt: skip
def test_row_17_a_record_without_a_usable_id_is_rejected(
    desk: Desk, side: str, identity: dict[str, Any], code: str
) -> None:
    check_rejected(desk, side, {**identity, **BODY}, code)


@SIDES
def test_row_18_the_same_record_twice_is_kept_once_and_counted(desk: Desk, side: str) -> None:
    good = SAMPLE if side == "samples" else OUTPUT
    desk.write(f"{side}.jsonl", good, good, good)
    ledger = desk.commits("--metrics", "mrr")
    assert ledger[side]["duplicate"] == 2 and ledger[side]["rejected"] == 0
    assert [row["value"] for row in desk.rows()] == [0.5]
    assert f"{side}: 1 file(s), jsonl: 3 read, 0 rejected, 2 duplicate" in desk.validate().out


@SIDES
@pytest.mark.parametrize("order", [1, -1])
def test_row_19_one_id_with_different_contents_rejects_all_of_them(desk: Desk, side: str, order: int) -> None:
    good = SAMPLE if side == "samples" else OUTPUT
    both = [good, {**good, "expected_output": ["d-9"], "retrieved": ["d-9"]}][::order]
    desk.samples = desk.write("samples.jsonl", SAMPLE, {**SAMPLE, "id": "q-2"})
    desk.outputs = desk.write("outputs.jsonl", OUTPUT, {**OUTPUT, "id": "q-2"})
    desk.write(f"{side}.jsonl", *both, {**good, "id": "q-2"})
    desk.refuses(3, f"2 of 3 {side} rejected (2 conflict)")
    seen = desk.validate()
    assert seen.code == 3 and "  conflict: 2\n" in seen.out and "2 of 3" in seen.out
    ledger = desk.commits("--metrics", "mrr", "--max-rejects", "100%")
    assert ledger["rejected"][side] == {"conflict": 2}
    assert sorted(row["location"].rpartition(":")[2] for row in desk.rejected()) == ["1", "2"]
    rows = {row["sample_id"]: (row["value"], row["status"]) for row in desk.rows()}
    assert rows["q-2"] == (0.5, "scored")
    assert rows.get("q-1") == (None if side == "samples" else (0.0, "conflict"))


@SIDES
@pytest.mark.parametrize("differ", [False, True])
def test_row_20_very_many_copies_of_one_id_are_counted_one_by_one(desk: Desk, side: str, differ: bool) -> None:
    good = SAMPLE if side == "samples" else OUTPUT
    line = json.dumps(good).encode() + b"\n"
    odd = json.dumps({**good, "expected_output": ["d-9"], "retrieved": ["d-9"]}).encode() + b"\n"
    desk.write(f"{side}.jsonl", line * 49_999, odd if differ else line)
    if differ:
        desk.refuses(3, f"50000 of 50000 {side} rejected (50000 conflict)")
    else:
        assert desk.commits()[side]["duplicate"] == 49_999
