import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import UsageError
from pipeline.inert import clipped, columns, markdown, plain, spreadsheet
from pipeline.show import RunTables, ledger_lines, render
from transforms.records import SUMMARY

LEDGER = {
    "samples": {"read": 612, "joined": 590, "missing": 10, "rejected": 8, "duplicate": 4},
    "outputs": {"read": 600, "matched": 590, "unmatched": 5, "rejected": 3, "duplicate": 2},
    "metric_rows": {"expected": 1200, "written": 1200, "by_status": {"scored": 1180, "missing_output": 20}},
    "rejected": {"samples": {"bad_json": 8}, "outputs": {"bad_json": 1, "conflict": 2}},
    "noted": {"integer_ids": 7},
    "balanced": True,
}
HOSTILE = (
    "../\x00\x1b[31mred\x1b[0m </script>|<b> =HYPERLINK() \u202egnp.exe\u2066 [x](javascript:1) https://evil.example"
)


def row(**changed: Any) -> dict[str, Any]:
    return {
        "metric": "recall@5", "k": 5, "slice": "all", "slice_value": None, "mean": 0.1234567890123456, "count": 590,
        "expected": 600, "missing": 10, "undefined": 10, "answered": 590 / 600, "std": 0.5, "min": 0.0, "max": 1.0,
        "p50": 0.5, "p95": 1.0, "ci_low": 0.11, "ci_high": 0.13, **changed,
    }  # fmt: skip


def tables(*rows: dict[str, Any]) -> RunTables:
    summary = pa.Table.from_pylist(list(rows), schema=SUMMARY)
    path = "runs/run_date=2026-11-18/attempt=x"
    return RunTables("2026-11-18", "attempt=x", path, "in-process (FnApiRunner)", LEDGER, summary)


def test_the_table_sets_counts_beside_the_mean_and_the_ledger_under_it() -> None:
    text = render(tables(row()), "table")
    heading, rule, first, *_ = text.splitlines()
    assert heading.split() == "metric k slice value mean ± ci count expected missing undefined answered".split()
    assert set(rule) == {"-", " "}
    assert first.split() == "recall@5 5 all 0.1235 0.0100 590 600 10 10 98.3%".split()
    assert "samples 612 = 590 joined + 10 missing + 8 rejected + 4 duplicate" in text
    assert "engine in-process (FnApiRunner)" in text
    assert "run_date 2026-11-18" in text and "attempt runs/run_date=2026-11-18/attempt=x" in text


def test_the_ledger_lines_are_sums_that_add_up() -> None:
    assert ledger_lines(LEDGER) == [
        "samples 612 = 590 joined + 10 missing + 8 rejected + 4 duplicate",
        "outputs 600 = 590 matched + 5 unmatched + 3 rejected + 2 duplicate",
        "metric rows 1,200 = 1,180 scored + 20 missing_output",
        "rejected samples: bad_json 8",
        "rejected outputs: bad_json 1, conflict 2",
        "noted: integer_ids 7",
        "ledger balanced",
    ]


def test_a_ledger_that_does_not_add_up_is_not_shown_as_one_that_does() -> None:
    altered = {**LEDGER, "samples": {**LEDGER["samples"], "joined": 589}, "balanced": False}  # type: ignore[dict-item]
    lines = ledger_lines(altered)
    assert lines[0].startswith("samples 612 ≠ 589 joined")
    assert lines[-1] == "ledger NOT BALANCED"


def test_nulls_are_dashes_and_a_share_below_one_is_never_shown_as_all() -> None:
    shown = render(tables(row(k=None, mean=None, ci_low=None, ci_high=None, answered=0.99999)), "table").splitlines()[2]
    assert shown.split() == "recall@5 - all - - 590 600 10 10 99.9%".split()
    assert "100.0%" in render(tables(row(answered=1.0)), "table")


def test_json_holds_full_numbers_and_the_ledger() -> None:
    document = json.loads(render(tables(row()), "json"))
    assert set(document) == {"run_date", "attempt", "ledger", "summary"}
    assert document["summary"][0]["mean"] == 0.1234567890123456
    assert document["ledger"] == LEDGER
    assert list(document["summary"][0]) == SUMMARY.names


def test_csv_holds_every_column_with_numbers_in_full() -> None:
    heading, first = csv.reader(io.StringIO(render(tables(row(mean=-0.25, k=None)), "csv")))
    assert heading == SUMMARY.names
    assert first[4] == "-0.25"  # a number stays one, minus and all
    assert first[1] == ""


@pytest.mark.parametrize("format", ["table", "json", "csv", "md"])
def test_text_from_the_data_is_inert_in_every_format(format: str) -> None:
    text = render(tables(row(slice=HOSTILE, slice_value=HOSTILE)), format)
    assert not any(char in text for char in "\x00\x1b\u202e\u2066")
    if format in ("json", "md"):
        assert "<" not in text
    if format == "md":
        assert all(line.count("|") - line.count("\\|") == 12 for line in text.splitlines() if line.startswith("|"))
        assert "[x](" not in text.replace("\\[", "") and "https://" not in text


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_a_text_cell_that_a_spreadsheet_would_run_gets_an_apostrophe(start: str) -> None:
    rows = list(csv.reader(io.StringIO(render(tables(row(slice_value=start)), "csv"))))
    assert rows[1][3].startswith("'")
    assert spreadsheet("a=1") == "a=1"


def test_one_row_stays_one_line_whatever_its_value_holds() -> None:
    wide = tables(row(slice_value="line\nline\u2028line\r" + "x" * 5000), row(slice_value="漢字" * 100))
    lines = render(wide, "table").splitlines()
    assert max(columns(line) for line in lines[:4]) < 180
    assert lines[4] == ""
    assert render(wide, "md").count("\n| ") == 3  # the rule and two rows


def test_columns_line_up_with_wide_and_combining_characters() -> None:
    shown = render(tables(row(slice_value="日本"), row(slice_value="e\u0301t\u00e9"), row(slice_value="en")), "table")
    ends = {columns(line) for line in shown.splitlines()[2:5]}
    assert len(ends) == 1


def test_clipping_counts_columns_and_marks_the_cut() -> None:
    assert clipped("abcdef", 4) == "abc…"
    assert clipped("漢字漢字", 5) == "漢字…"
    assert clipped("abcd", 4) == "abcd"


def test_plain_text_spells_out_what_would_act() -> None:
    assert plain("a\x1b[0m\u200f\x85\U000e0041") == "a\\x1b[0m\\u200f\\x85\\U000e0041"
    assert plain("Grüße, 日本") == "Grüße, 日本"
    assert markdown("a|b<i>") == "a\\|b&lt;i&gt;"


def test_an_unknown_format_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown 'jsn'; did you mean json?"):
        render(tables(row()), "jsn")
