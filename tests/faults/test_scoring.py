"""FAULTS.md rows 21 to 32: what a sample scores when something about it is out of the ordinary."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import evaluate
from pipeline.commit import open_run
from pipeline.errors import UsageError

from .driving import OUTPUT, SAMPLE, Desk

NAMES = ["Köln 1", "köln-2", "q-3", "Q-4"]


def one_row(desk: Desk, *flags: str) -> tuple[Any, str]:
    desk.commits("--metrics", "mrr", *flags)
    [row] = desk.rows()
    return row["value"], row["status"]


def test_row_21_a_sample_without_output_scores_0_and_missing_says_otherwise(desk: Desk) -> None:
    desk.write("samples.jsonl", SAMPLE, {**SAMPLE, "id": "q-2"})
    ledger = desk.commits("--metrics", "mrr")
    assert ledger["samples"]["missing"] == 1
    assert {row["sample_id"]: (row["value"], row["status"]) for row in desk.rows()}["q-2"] == (0.0, "missing_output")
    [summary] = open_run(str(desk.runs)).summary().to_pylist()
    assert (summary["mean"], summary["missing"], summary["answered"]) == (0.25, 1, 0.5)
    desk.commits("--metrics", "mrr", "--missing", "skip", "--replace")
    [summary] = open_run(str(desk.runs)).summary().to_pylist()
    assert (summary["mean"], summary["count"], summary["missing"]) == (0.5, 1, 1)
    ended = desk.run("--missing", "fail", "--replace")
    assert ended.code == 3 and "1 of 2 samples have no usable output, and --missing is fail" in ended.err
    assert desk.validate("--missing", "fail").code == 3


def test_row_22_outputs_without_sample_are_counted_and_never_too_many(desk: Desk) -> None:
    desk.write("outputs.jsonl", OUTPUT, *({**OUTPUT, "id": f"x-{i}"} for i in range(50)))
    ledger = desk.commits("--max-rejects", "0")
    assert ledger["outputs"]["unmatched"] == 50 and ledger["outputs"]["rejected"] == 0
    assert "50 outputs have no sample" in desk.validate().out


@pytest.mark.parametrize(
    ("spoil", "repair"),
    [
        (lambda name: f" {name}\t", "strip"),
        (str.swapcase, "lower"),
        (lambda name: unicodedata.normalize("NFD", name), "NFC"),
        (lambda name: unicodedata.normalize("NFD", name.swapcase()) + " ", "strip + lower + NFC"),
        (lambda name: f"corpus/v2:{name}", "dropping all up to the last '/' or ':'"),
        (lambda name: f"query_{name}", "dropping 'query_' of the outputs' ids at the front"),
        (lambda name: f"{name}.json", "dropping a file extension"),
        (lambda name: f"{name}-final-version", "dropping '-final-version' of the outputs' ids at the end"),
    ],
    ids=["blanks", "case", "NFD", "all three", "folders", "prefix", "extension", "suffix"],
)
def test_row_23_nothing_joins_and_the_repair_is_named(desk: Desk, spoil: Callable[[str], str], repair: str) -> None:
    """Every name is spoilt for the outputs; the message says which repair would bring the most of them together."""
    names = ["Köln 1", "KÖLN-2", "münchen.x y", "Über"] if repair == "NFC" else NAMES
    outputs = [spoil(name) for name in names]
    outputs = [name.replace("\t", " ") for name in outputs]
    desk.write("samples.jsonl", *({**SAMPLE, "id": name} for name in names))
    desk.write("outputs.jsonl", *({**OUTPUT, "id": name} for name in outputs))
    ended = desk.refuses(3, "0 of 4 samples joined; ", f" % would after {repair};", "a sample id is '")
    seen = desk.validate()
    assert seen.code == 3 and ended.err.partition("committed: ")[2].strip() in seen.out


def test_row_23_zeros_in_front_of_numbers_are_named(desk: Desk) -> None:
    desk.write("samples.jsonl", *({**SAMPLE, "id": f"{i:04d}"} for i in range(1, 9)))
    desk.write("outputs.jsonl", *({**OUTPUT, "id": i} for i in range(1, 9)))
    said = "100 % would after dropping zeros in front of numbers"
    desk.refuses(3, "0 of 8 samples joined", said, "'0001'", "'1'", spawned=True)
    assert said in desk.validate().out


def test_row_23_ids_that_no_repair_brings_together_are_shown(desk: Desk) -> None:
    desk.write("outputs.jsonl", {**OUTPUT, "id": "zebra"})
    ended = desk.refuses(3, "0 of 1 samples joined; a sample id is 'q-1', an output id is 'zebra'")
    assert "would after" not in ended.err


def test_row_23_where_every_output_was_rejected_the_ids_are_not_blamed(desk: Desk) -> None:
    desk.write("outputs.jsonl", {"id": "Q-1", "retrieved": [None]})
    flags = ("--max-rejects", "100%")
    desk.refuses(3, "every one of the 1 outputs was rejected (1 bad_output); repair those first", flags=flags)
    assert "every one of the 1 outputs was rejected" in desk.validate(*flags).out


def test_row_23_validate_says_what_the_asked_metrics_lack(desk: Desk) -> None:
    out = desk.validate("--metrics", "containment@5,mrr", "--slice-by", "lang").out
    assert "containment@5 read texts, and no output has one" in out
    assert "containment@5 look for an answer, and no sample has one" in out
    assert "--slice-by lang: no sample has that field" in out


def test_row_24_an_output_that_says_error_scores_0(desk: Desk) -> None:
    desk.write("outputs.jsonl", {"id": "q-1", "error": "timeout", "retrieved": ["d-1"]})
    assert one_row(desk) == (0.0, "error")


def test_row_25_an_empty_list_scores_0(desk: Desk) -> None:
    desk.write("outputs.jsonl", {"id": "q-1", "retrieved": []})
    assert one_row(desk) == (0.0, "scored")


@pytest.mark.parametrize("gold", [[], {}, {"d-1": 0}, {"d-1": 0, "d-2": 0.0}])
def test_row_26_gold_without_anything_relevant_has_no_value(desk: Desk, gold: Any) -> None:
    desk.write("samples.jsonl", {"id": "q-1", "expected_output": gold})
    assert one_row(desk) == (None, "no_relevant")
    assert one_row(desk, "--replace", "--dialect", "trec")[0] == 0.0
    assert "name no relevant document" in desk.validate().out


def test_row_27_repeated_documents_are_ranked_once_and_counted(desk: Desk) -> None:
    desk.write("outputs.jsonl", {"id": "q-1", "retrieved": ["d-2", "d-2", "d-3", "d-2", "d-1"]})
    assert one_row(desk) == (1 / 3, "scored")
    noted = desk.ledger()["noted"]
    assert noted["outputs.lists_with_repeats"] == 1 and noted["outputs.repeated_entries"] == 2
    assert one_row(desk, "--replace", "--dialect", "genai-training") == (1 / 5, "scored")


def scored(*scores: float | None) -> list[dict[str, Any]]:
    return [{"id": f"d-{i}", "score": score} for i, score in enumerate(scores)]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_row_28_tied_and_unsorted_scores_of_native_lists_are_counted_and_rank_is_position(
    desk: Desk, format: str
) -> None:
    lists = [scored(3, 2, 1), scored(3, 3, 1), scored(1, 2, 1), scored(2, None, 1), scored()]
    desk.write("samples.jsonl", *({**SAMPLE, "id": f"q-{i}"} for i in range(5)))
    outputs = [{"id": f"q-{i}", "retrieved": entries} for i, entries in enumerate(lists)]
    if format == "parquet":
        desk.outputs = desk.folder / "outputs.parquet"
        pq.write_table(pa.Table.from_pylist(outputs), desk.outputs)
    else:
        desk.write("outputs.jsonl", *outputs)
    noted = desk.commits("--metrics", "mrr")["noted"]
    assert noted == {"outputs.tied_lists": 2, "outputs.rank_against_score": 1}
    assert [row["value"] for row in sorted(desk.rows(), key=lambda row: row["sample_id"])] == [0.5] * 4 + [0.0]


def test_row_28_a_run_is_ordered_by_score_and_what_contradicts_it_is_counted_once(desk: Desk) -> None:
    desk.outputs = desk.write("a.run", "q-1 Q0 d-9 1 1.0 t", "q-1 Q0 d-1 2 2.0 t", "q-1 Q0 d-0 3 1.0 t")
    assert one_row(desk) == (1.0, "scored")
    noted = desk.ledger()["noted"]
    assert noted["outputs.tied_lists"] == 1 and noted["outputs.rank_against_score"] == 1


def test_row_29_non_finite_scores_and_gains_are_rejected(desk: Desk, tmp_path: Path) -> None:
    desk.outputs = tmp_path / "o.parquet"
    entries = pa.array([[{"id": "d-1", "score": np.inf}], [{"id": "d-1", "score": 1.0}]])
    pq.write_table(pa.table({"id": ["q-1", "q-2"], "retrieved": entries}), desk.outputs)
    desk.write("samples.jsonl", SAMPLE, {**SAMPLE, "id": "q-2"})
    desk.refuses(3, "1 of 2 outputs rejected (1 non_finite)")
    desk.commits("--metrics", "mrr", "--max-rejects", "50%")
    assert {row["sample_id"]: row["status"] for row in desk.rows()} == {"q-1": "bad_output", "q-2": "scored"}
    gains = pa.array([[("d-1", np.nan)], [("d-1", 1.0)]], pa.map_(pa.string(), pa.float64()))
    desk.samples = tmp_path / "s.parquet"
    pq.write_table(pa.table({"id": ["q-1", "q-2"], "expected_output": gains}), desk.samples)
    ended = desk.run("--replace")
    assert ended.code == 3 and "1 of 2 samples rejected (1 non_finite)" in ended.err


def test_row_29_negative_gains_are_unjudged(desk: Desk) -> None:
    desk.write("samples.jsonl", {"id": "q-1", "expected_output": {"d-2": -1, "d-1": 1}})
    assert one_row(desk) == (0.5, "scored")
    desk.commits("--metrics", "ndcg@5", "--replace")
    assert desk.rows()[0]["value"] == pytest.approx(1 / np.log2(3))


def test_row_30_fewer_retrieved_than_k_is_scored(desk: Desk) -> None:
    desk.commits("--metrics", "recall@100,precision@4")
    assert {row["metric"]: row["value"] for row in desk.rows()} == {"recall@100": 1.0, "precision@4": 0.25}


@pytest.mark.parametrize("format", ["parquet", "trec"])
def test_row_31_a_very_long_list_is_scored_whole(desk: Desk, format: str) -> None:
    """A fifth of a million here; the bounds are held elsewhere."""
    docs = [f"d-{i}" for i in range(200_000, 0, -1)]
    if format == "parquet":
        desk.outputs = desk.folder / "o.parquet"
        pq.write_table(pa.table({"id": ["q-1"], "retrieved": [docs]}), desk.outputs)
    else:
        lines = [f"q-1 Q0 {doc} {i} {len(docs) - i} t" for i, doc in enumerate(docs, 1)]
        desk.outputs = desk.write("o.run", "\n".join(lines))
    assert one_row(desk) == (1 / 200_000, "scored")


def test_row_32_slices_that_are_missing_null_or_too_many_have_names(desk: Desk) -> None:
    about = [{}, {"tag": None}, {"tag": []}, *({"tag": f"t-{i}"} for i in range(1100))]
    desk.write("samples.jsonl", *({**SAMPLE, "id": f"q-{i}", "metadata": each} for i, each in enumerate(about)))
    desk.commits("--metrics", "mrr", "--slice-by", "tag")
    rows = [row for row in open_run(str(desk.runs)).summary().to_pylist() if row["slice"] == "tag"]
    sizes = {row["slice_value"]: row["expected"] for row in rows}
    assert sizes["(none)"] == 3 and sizes["(other)"] == 100 and len(sizes) == 1002
    assert sum(sizes.values()) == len(about)


class Frame:
    """What pandas and polars offer: Arrow for whoever asks, and column names for whoever goes through it."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._table = pa.Table.from_pylist(records)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Any:
        return iter(self._table.column_names)


def test_evaluate_takes_data_frames_for_tables_and_says_what_it_cannot_take() -> None:
    found = evaluate(Frame([SAMPLE]), Frame([OUTPUT]), metrics="mrr")
    assert found.rows["value"].to_pylist() == [0.5] and found.ledger["balanced"]
    for wrong in ("samples.jsonl", SAMPLE, 5, None):
        with pytest.raises(UsageError, match="lists of dicts, Arrow tables or data frames"):
            evaluate(wrong, [OUTPUT])  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [{"k": 5.0}, {"k": 0}, {"metrics": 5}, {"slice_by": 5}, {"dialect": 5}])
def test_evaluate_says_which_word_is_wrong(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        evaluate([SAMPLE], [OUTPUT], **asked)
