"""The ledger: terms from every stage, held against each other."""

import copy
from collections import Counter
from typing import Any

import pytest

from transforms.ledger import Tally, build_ledger, imbalances

TERMS = Counter(
    {
        "samples.read": 10,
        "samples.joined": 4,
        "samples.missing": 2,
        "samples.duplicate": 1,
        "samples.rejected.bad_json": 1,
        "samples.rejected.conflict": 2,
        "outputs.read": 9,
        "outputs.matched": 4,
        "outputs.unmatched": 3,
        "outputs.duplicate": 1,
        "outputs.rejected.bad_output": 1,
        "rows.scored": 8,
        "rows.missing_output": 3,
        "rows.bad_output": 1,
        "noted.outputs.integer_ids": 5,
    }
)
WRITTEN = {"scored": 8, "missing_output": 3, "bad_output": 1, "rejected": 4}


def test_a_run_in_which_everything_adds_up_is_balanced() -> None:
    ledger = build_ledger(TERMS, WRITTEN, metrics=2)
    assert ledger["balanced"]
    assert ledger["samples"] == {"read": 10, "joined": 4, "missing": 2, "rejected": 3, "duplicate": 1}
    assert ledger["outputs"] == {"read": 9, "matched": 4, "unmatched": 3, "rejected": 1, "duplicate": 1}
    assert ledger["metric_rows"]["expected"] == ledger["metric_rows"]["written"] == 12
    assert ledger["rejected"]["samples"] == {"bad_json": 1, "conflict": 2}
    assert ledger["noted"] == {"outputs.integer_ids": 5}


@pytest.mark.parametrize("term", [term for term in TERMS if not term.startswith("noted")])
@pytest.mark.parametrize("by", [-1, 1])
def test_one_record_more_or_less_anywhere_unbalances_it(term: str, by: int) -> None:
    ledger = build_ledger(TERMS + Counter() | {term: TERMS[term] + by}, WRITTEN, metrics=2)
    assert not ledger["balanced"]
    assert imbalances(ledger)


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("by", [-1, 1])
def test_one_row_more_or_less_in_the_files_unbalances_it(kind: str, by: int) -> None:
    assert not build_ledger(TERMS, WRITTEN | {kind: WRITTEN[kind] + by}, metrics=2)["balanced"]


def test_rows_that_changed_their_status_on_the_way_unbalance_it() -> None:
    ledger = build_ledger(TERMS, WRITTEN | {"scored": 9, "missing_output": 2}, metrics=2)
    assert not ledger["balanced"]
    assert "by status" in imbalances(ledger)[0]


def test_a_metric_that_nobody_scored_unbalances_it() -> None:
    assert not build_ledger(TERMS, WRITTEN, metrics=3)["balanced"]


def test_an_imbalance_is_a_sentence_with_its_numbers() -> None:
    ledger: dict[str, Any] = copy.deepcopy(build_ledger(TERMS, WRITTEN, metrics=2))
    ledger["samples"]["read"] = 11
    assert imbalances(ledger) == ["samples: 11 read is not 4 joined + 2 missing + 3 rejected + 1 duplicate"]


def test_nothing_at_all_is_balanced() -> None:
    assert build_ledger({}, {}, metrics=4)["balanced"]


def test_a_tally_adds_up_and_starts_again() -> None:
    tally = Tally()
    tally.add({"a": 1})
    tally.add({"a": 2, "b": 3})
    assert tally.snapshot() == {"a": 3, "b": 3}
    tally.clear()
    assert tally.snapshot() == {}
