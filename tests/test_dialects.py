"""The conventions of each dialect, one by one, and each system once more in plain loops over random records."""

import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rapidfuzz import fuzz

import pipeline
from pipeline.cli import main
from pipeline.errors import UsageError
from transforms.dialects import DIALECTS, deepest_rank, find, matching, measure, require
from transforms.metrics.catalog import CATALOG, parse, parse_list
from transforms.texts import LONGEST

from . import oracle


def rows(gold: Any, retrieved: Any, metrics: str, dialect: str, **sample: Any) -> dict[str, tuple[Any, str]]:
    """Metric → (value, status) of one sample."""
    found = pipeline.evaluate(
        [{"id": "q", "expected_output": gold, **sample}], [{"id": "q", "actual_output": retrieved}], metrics, dialect
    )
    assert found.ledger["balanced"]
    return {row["metric"]: (row["value"], row["status"]) for row in found.rows.to_pylist()}


def value(gold: Any, retrieved: Any, metric: str, dialect: str, **sample: Any) -> Any:
    return rows(gold, retrieved, metric, dialect, **sample)[metric][0]


# The systems, each in plain loops. A gold is a list of ids, a map, or groups; None stands for no value.


def eval_harness(name: str, gold: Any, listed: list[str], k: int | None) -> float | None:
    gains = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
    top = oracle.without_repeats(listed)[:k]
    if name == "hit":
        return float(any(doc in gains for doc in top))
    if name == "recall":
        return len([doc for doc in top if doc in gains]) / len(gains)
    if name == "mrr":
        return first_hit(top, gains)
    best = plain_dcg(sorted(gains.values(), reverse=True)[:k])
    return max(0.0, min(1.0, plain_dcg([gains.get(doc, 0) for doc in top]) / best)) if best > 0 else 0.0


def adhdecode(name: str, gold: Any, listed: list[str], k: int | None) -> float | None:
    gains = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
    if name == "hit":
        return float(any(doc in gains for doc in listed[:k]))
    if name == "mrr":
        return first_hit(listed[:k], gains)
    got = plain_dcg([gains.get(doc, 0) for doc in listed[:k]])
    best = plain_dcg(sorted(gains.values(), reverse=True)[:k])
    return float(got == 0) if best == 0 else got / best


def genai_training(name: str, gold: Any, listed: list[str], k: int | None) -> float | None:
    gains = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
    top = listed[:k]
    found = len([doc for doc in top if doc in gains])
    if name == "recall":
        return found / max(1, len(gains))
    if name == "precision":
        return found / max(1, len(listed) if k is None else k)
    if name == "mrr":
        return first_hit(top, gains)
    if name == "coverage":
        return float(found > 0)
    if name == "map":
        total, seen = 0.0, 0
        for rank, doc in enumerate(top, 1):
            seen += doc in gains
            total += seen / rank if doc in gains else 0.0
        return total / max(1, len(gains))
    best = plain_dcg(sorted(gains.values(), reverse=True)[:k])
    return plain_dcg([gains.get(doc, 0) for doc in top]) / best if best > 0 else 0.0


def autorag(name: str, gold: Any, listed: list[str], k: int | None) -> float | None:
    groups = gold if gold and isinstance(gold, list) and isinstance(gold[0], list) else [list(gold)]
    top = listed[:k]
    if not top or not all(groups):
        return None
    wanted = {doc for group in groups for doc in group}
    recall = sum(any(doc in group for doc in top) for group in groups) / len(groups)
    precision = len(wanted & set(top)) / len(top)
    if name in ("recall", "precision"):
        return recall if name == "recall" else precision
    if name == "f1":
        return 2 * recall * precision / (recall + precision) if recall + precision else 0.0
    if name == "mrr":
        return sum(first_hit(top, group) for group in groups) / len(groups)
    if name == "map":
        return sum(own_average(top, group) for group in groups) / len(groups)
    mentions = sum(len(group) for group in groups)
    return plain_dcg([float(doc in wanted) for doc in top]) / plain_dcg([1.0] * min(mentions, len(top)))


def remem(name: str, gold: Any, listed: list[str], k: int | None) -> float | None:
    golds = list(gold)
    if name == "recall":
        return len(set(listed[:k]) & set(golds)) / len(set(golds)) if golds else 0.0
    if name == "recall_all":
        found = {g for g in golds if any(is_chunk(doc, g) for doc in listed[:k])}
        return float(bool(golds) and len(found) == len(golds))
    relevant = [float(any(is_chunk(doc, g) for g in golds)) for doc in listed]
    best = level_dcg(sorted(relevant, reverse=True)[:k])
    return level_dcg(relevant[:k]) / best if best else 0.0


def is_chunk(chunk: str, original: str) -> bool:
    lines = chunk.split("\n")
    said = "\n".join(lines[1:] if lines[0].startswith("Date: ") else lines)
    escaped = json.dumps(said)
    if said[:6] == "user: " or said[:11] == "assistant: ":
        # Up to the second colon: all that REMem compares of a turn.
        said, escaped = (re.split(": ", text)[1] for text in (said, escaped))
    return said in original or escaped in original


def first_hit(listed: list[str], wanted: Any) -> float:
    return next((1 / rank for rank, doc in enumerate(listed, 1) if doc in wanted), 0.0)


def own_average(listed: list[str], group: list[str]) -> float:
    ranks = [rank for rank, doc in enumerate(listed, 1) if doc in group]
    return sum(place / rank for place, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0


def plain_dcg(gains: list[Any]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def level_dcg(gains: list[float]) -> float:
    return sum(gain / math.log2(max(rank, 2)) for rank, gain in enumerate(gains, 1))


SYSTEMS: dict[str, Callable[[str, Any, list[str], int | None], float | None]] = {
    "eval-harness": eval_harness,
    "adhdecode": adhdecode,
    "genai-training": genai_training,
    "autorag": autorag,
    "remem": remem,
}


def random_gold(rng: random.Random, dialect: str, pool: list[str]) -> Any:
    docs = rng.choices(pool, k=rng.randint(1 if dialect == "eval-harness" else 0, 5))
    if dialect == "autorag" and rng.random() < 0.7:
        return [rng.choices(pool, k=rng.randint(0 if rng.random() < 0.1 else 1, 3)) for _ in range(rng.randint(1, 4))]
    if dialect != "remem" and rng.random() < 0.5:
        return {doc: rng.choice((-1, 0, 0.5, 1, 2, 3)) for doc in docs}
    return docs


@pytest.mark.parametrize("dialect", SYSTEMS)
def test_a_dialect_is_its_system_in_plain_loops(dialect: str) -> None:
    rng = random.Random(dialect)
    # Some ids are part of others, so that chunks match more than themselves.
    pool = ["a", "ab", "abc", "b", "c", "d", "user: b", "Date: 1\nc", "x", "y", "é"]
    golds = [random_gold(rng, dialect, pool) for _ in range(600)]
    lists = [rng.choices(pool, k=rng.randrange(9)) for _ in golds]
    asked = parse_list([f"{name}{cut}" for name in DIALECTS[dialect].metrics for cut in ("", "@1", "@3", "@20")
                        if name != "containment"])  # fmt: skip
    found = pipeline.evaluate(
        [{"id": str(i), "expected_output": gold} for i, gold in enumerate(golds)],
        [{"id": str(i), "retrieved": listed} for i, listed in enumerate(lists)],
        [str(metric) for metric in asked],
        dialect,
    )
    assert found.ledger["balanced"]
    assert found.rows.num_rows == len(golds) * len(asked)
    metrics = {str(metric): metric for metric in asked}
    for row in found.rows.to_pylist():
        metric, i = metrics[row["metric"]], int(row["sample_id"])
        expected = SYSTEMS[dialect](metric.name, golds[i], lists[i], metric.cutoff)
        if expected is None:
            assert row["value"] is None
        else:
            assert row["value"] == pytest.approx(expected, rel=1e-12, abs=1e-12), (row, golds[i], lists[i])


def test_every_dialect_of_another_system_is_tried_against_it() -> None:
    assert set(SYSTEMS) == set(DIALECTS) - {"standard", "trec"}


# eval-harness refuses records where the others score.


@pytest.mark.parametrize(
    ("gold", "retrieved"),
    [
        ([], ["a"]),
        ({}, ["a"]),
        ([1, 2], ["a"]),
        (["a", 2], ["a"]),
        ([""], ["a"]),
        ([["a"], ["b"]], ["a"]),
        ({"a": True}, ["a"]),
        ({"a": None}, ["a"]),
        ({"a": "much"}, ["a"]),
        ({"a": "1_0"}, ["a"]),
        (7, ["a"]),
        ("paris", ["a"]),
        (["a"], [7]),
        (["a"], ["a", 7]),
        (["a"], ["a", "b", "c", "d", {"text": "far past k"}]),
        (["a"], [{"id": 7}]),
        (["a"], [""]),
        (["a"], "not json"),
        (["a"], {"retrieved": 42}),
        (["a"], None),
    ],
)
def test_eval_harness_answers_what_it_refuses_with_an_error(gold: Any, retrieved: Any) -> None:
    found = rows(gold, retrieved, "hit@2,recall@2,mrr,ndcg@2", "eval-harness")
    assert set(found.values()) == {(None, "error")}


def test_eval_harness_finds_an_answer_only_in_a_text() -> None:
    retrieved = [{"id": "x", "text": "In Paris"}]
    assert rows("paris", retrieved, "containment@1", "eval-harness") == {"containment@1": (1.0, "scored")}
    assert rows(["paris"], retrieved, "containment@1", "eval-harness") == {"containment@1": (None, "error")}
    assert rows("  ", retrieved, "containment@1", "eval-harness") == {"containment@1": (None, "error")}
    assert rows(["x"], retrieved, "containment@1", "eval-harness", answer="PARIS")["containment@1"] == (1.0, "scored")


def test_eval_harness_keeps_the_keys_of_a_map_whatever_their_type() -> None:
    assert rows({1: 2}, ["1"], "recall@1", "eval-harness") == {"recall@1": (1.0, "scored")}


def test_integers_are_ids_everywhere_but_in_eval_harness() -> None:
    for dialect in DIALECTS.values():
        name = next(name for name in ("recall", "mrr") if name in dialect.metrics)
        expected = None if dialect.name == "eval-harness" else 1.0
        assert value([1], [1], name, dialect.name) == expected


def test_a_refused_record_is_counted_shown_and_still_in_the_sums() -> None:
    samples = [
        {"id": "good", "expected_output": ["a"]},
        {"id": "empty", "expected_output": []},
        {"id": "silent", "expected_output": []},
        {"id": "bad-list", "expected_output": ["a"]},
        {"id": "twice", "expected_output": []},
        {"id": "twice", "expected_output": []},
        {"id": "", "expected_output": ["a"]},
    ]
    outputs = [
        *({"id": name, "retrieved": ["a"]} for name in ("good", "empty", "twice")),
        {"id": "bad-list", "retrieved": [7]},
        {"id": "nobody", "retrieved": [7]},
    ]
    found = pipeline.evaluate(samples, outputs, "recall@5,mrr", "eval-harness")
    ledger = found.ledger
    assert ledger["balanced"]
    assert ledger["samples"] == {"read": 7, "joined": 4, "missing": 1, "rejected": 1, "duplicate": 1}
    assert ledger["outputs"] == {"read": 5, "matched": 4, "unmatched": 1, "rejected": 0, "duplicate": 0}
    assert ledger["refused"] == {"samples": {"bad_gold": 4}, "outputs": {"bad_output": 2}}
    assert ledger["metric_rows"]["by_status"] == ledger["metric_rows"]["by_status"] | {"scored": 2, "error": 8}
    assert sorted(found.rejected["code"].to_pylist()) == ["bad_gold"] * 4 + ["bad_output"] * 2 + ["missing_id"]
    recall = found.summary.to_pylist()[0]
    assert (recall["mean"], recall["count"], recall["expected"], recall["undefined"]) == (1.0, 1, 5, 4)


def test_contradicting_records_are_a_conflict_even_if_one_is_refused() -> None:
    samples = [{"id": "q", "expected_output": []}, {"id": "q", "expected_output": ["a"]}]
    found = pipeline.evaluate(samples, [{"id": "q", "retrieved": ["a"]}], "mrr", "eval-harness")
    assert found.ledger["balanced"]
    assert found.ledger["samples"]["rejected"] == 2
    assert found.rows.num_rows == 0


def test_refused_records_count_for_max_rejects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [{"id": str(i), "expected_output": [] if i < 3 else ["a"]} for i in range(10)]
    for name, records in (("samples", samples), ("outputs", [{"id": str(i), "retrieved": ["a"]} for i in range(10)])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    given = [f"--{name}={tmp_path}/{name}.jsonl" for name in ("samples", "outputs")]
    given += [f"--out={tmp_path}/runs", "--dialect=eval-harness", "--metrics=mrr"]
    assert main(["run", *given]) == 3
    assert "3 of 10 samples rejected (3 bad_gold)" in capsys.readouterr().err
    assert main(["run", *given, "--max-rejects=3"]) == 0
    assert "refused samples: bad_gold 3 (rows of null; counted for --max-rejects)" in capsys.readouterr().out


def test_acceptance_does_not_depend_on_the_metrics() -> None:
    samples = [
        {"id": "text", "expected_output": "paris"},
        {"id": "list", "expected_output": ["a"]},
        {"id": "none", "expected_output": []},
        {"id": "both", "expected_output": [], "answer": "paris"},
    ]
    outputs = [{"id": each["id"], "retrieved": [{"id": "a", "text": "paris"}]} for each in samples]
    for dialect in DIALECTS.values():
        ledgers = []
        for name in dialect.metrics:
            ledger = pipeline.evaluate(samples, outputs, name, dialect.name).ledger
            ledgers.append({word: ledger[word] for word in ("samples", "outputs", "rejected", "refused")})
        assert all(ledger == ledgers[0] for ledger in ledgers)


# autorag


@pytest.mark.parametrize("gold", [[], [[]], [["a"], []], [["a", " "]], [["a"], [""]]])
def test_autorag_has_no_score_without_a_whole_gold(gold: Any) -> None:
    assert set(rows(gold, ["a"], "recall,map,ndcg", "autorag").values()) == {(None, "no_relevant")}


@pytest.mark.parametrize("retrieved", [[], {}, ["a", " "], ["a", None], "not json"])
def test_autorag_has_no_score_without_a_whole_list(retrieved: Any) -> None:
    assert set(rows([["a"]], retrieved, "recall,map,ndcg", "autorag").values()) == {(None, "bad_output")}


def test_autorag_leaves_what_has_no_score_out_of_the_mean() -> None:
    samples = [{"id": i, "expected_output": [["a"]]} for i in "pqr"]
    outputs = [{"id": "p", "retrieved": ["a"]}, {"id": "q", "retrieved": []}]
    (row,) = pipeline.evaluate(samples, outputs, "recall", "autorag").summary.to_pylist()
    assert (row["mean"], row["count"], row["undefined"], row["missing"]) == (0.5, 2, 1, 1)


def test_a_gold_without_groups_is_one_group_to_autorag() -> None:
    assert value(["a", "b"], ["x", "b"], "recall", "autorag") == 1.0
    assert value(["a", "b"], ["x", "b"], "recall", "standard") == 0.5


# remem


def test_remem_looks_for_chunks_in_texts_and_for_ids_among_ids() -> None:
    chunk = [{"id": "c-1", "text": "Date: 2023\nuser: a red bike"}]
    found = rows(["she has a red bike"], chunk, "recall@1,recall_all@1,ndcg_any@1", "remem")
    assert [value for value, _ in found.values()] == [0.0, 1.0, 1.0]


def test_remem_finds_a_chunk_in_an_original_that_is_json() -> None:
    said = 'she said "hi",\nin a café'
    original = json.dumps({"role": "user", "content": said})
    assert said not in original
    assert value([original], [{"id": "c", "text": said}], "recall_all@1", "remem") == 1.0
    assert value([original], [{"id": "c", "text": said[:-1]}], "recall_all@1", "remem") == 0.0  # its quotes must fit


def test_remem_reads_the_whole_list_for_its_ideal() -> None:
    assert value(["g", "h"], ["g", *"xyzuvw", "h"], "ndcg_any@2", "remem") == 0.5
    assert deepest_rank(DIALECTS["remem"], parse("ndcg_any@2")) is None
    assert deepest_rank(DIALECTS["remem"], parse("recall_all@2")) == 2


def test_a_gold_that_lists_a_text_twice_is_never_all_found_by_remem() -> None:
    assert value(["a", "a"], ["a"], "recall_all@1", "remem") == 0.0
    assert value(["a", "a"], ["a"], "recall@1", "remem") == 1.0


def test_remem_rounds_means_and_nothing_else() -> None:
    samples = [{"id": str(i), "expected_output": ["a", "b", "c"]} for i in range(3)]
    outputs = [{"id": str(i), "retrieved": "abc"[:i] and list("abc"[:i])} for i in range(1, 3)]
    found = pipeline.evaluate(samples, [*outputs, {"id": "0", "retrieved": list("ab")}], "recall@5", "remem")
    (row,) = found.summary.to_pylist()
    assert row["mean"] == 0.5556
    assert row["max"] == 2 / 3
    assert row["ci_low"] == pytest.approx(5 / 9 - 1.959963984540054 * row["std"] / math.sqrt(3), abs=1e-15)


# Texts in the standard.


def random_texts(rng: random.Random) -> tuple[str, list[str | None]]:
    words = ["New", "new", "York", "york", "Straße", "café", "i", "İ", "Σ"]
    blanks = [" ", "  ", "\t", "\n", "\xa0", "\u2003", "\x85", "\u3000"]

    def text(most: int) -> str:
        return "".join(rng.choice(words) + rng.choice(blanks) for _ in range(rng.randrange(most)))

    return text(3), [None if rng.random() < 0.2 else text(6) for _ in range(rng.randrange(5))]


@pytest.mark.parametrize("case_sensitive", [False, True])
def test_containment_equals_its_oracle(case_sensitive: bool) -> None:
    rng = random.Random(3)
    cases = [random_texts(rng) for _ in range(500)]
    cut = "(case_sensitive=true)" if case_sensitive else ""
    found = pipeline.evaluate(
        [{"id": str(i), "answer": answer} for i, (answer, _) in enumerate(cases)],
        [
            {"id": str(i), "retrieved": [{"id": f"d{j}", "text": text} for j, text in enumerate(texts)]}
            for i, (_, texts) in enumerate(cases)
        ],
        f"containment{cut},containment{cut}@2",
    )
    for row in found.rows.to_pylist():
        answer, texts = cases[int(row["sample_id"])]
        assert row["value"] == oracle.containment(answer, texts, row["k"], case_sensitive), (row, answer, texts)


def test_an_answer_of_blanks_is_none_but_to_eval_harness() -> None:
    retrieved = [{"id": "a", "text": " "}, {"id": "b", "text": "anything"}]
    assert rows("\xa0", retrieved, "containment@1,2", "standard")["containment@2"] == (None, "no_relevant")
    found = rows("\xa0", retrieved, "containment@1,2", "eval-harness")
    assert found == {"containment@1": (0.0, "scored"), "containment@2": (1.0, "scored")}


def test_an_answer_stands_before_a_gold_that_is_text() -> None:
    retrieved = [{"id": "a", "text": "in Rome"}]
    assert value("paris", retrieved, "containment@1", "standard", answer="rome") == 1.0


def test_fuzzy_matches_are_those_of_the_partial_ratio() -> None:
    rng = random.Random(4)
    words = ["refund", "window", "thirty", "days", "after", "purchase", "return"]

    def text() -> str:
        kept = "".join(c for c in " ".join(rng.choices(words, k=rng.randint(1, 6))) if rng.random() > 0.1)
        return kept or "x"

    golds = [[text() for _ in range(rng.randint(1, 4))] for _ in range(200)]
    lists = [[{"id": f"d{i}", "text": text()} for i in range(rng.randrange(6))] for _ in golds]
    found = pipeline.evaluate(
        [{"id": str(i), "expected_output": gold} for i, gold in enumerate(golds)],
        [{"id": str(i), "retrieved": listed} for i, listed in enumerate(lists)],
        "recall(match=fuzzy,threshold=80)@3,mrr(match=fuzzy),precision(match=fuzzy,threshold=80)@3",
    )
    seen = set()
    for row in found.rows.to_pylist():
        gold, texts = set(golds[int(row["sample_id"])]), [each["text"] for each in lists[int(row["sample_id"])]]
        least = 90 if row["metric"].startswith("mrr") else 80
        like = [[fuzz.partial_ratio(g, t) >= least for g in gold] for t in texts]
        expected = {
            "rec": sum(any(each[i] for each in like[:3]) for i in range(len(gold))) / len(gold),
            "mrr": first_hit(["hit" if any(each) else "" for each in like], ["hit"]),
            "pre": sum(map(any, like[:3])) / 3,
        }[row["metric"][:3]]
        assert row["value"] == pytest.approx(expected, abs=1e-12), row
        seen.add(round(row["value"], 3))
    assert len(seen) > 5


def test_fuzzy_takes_an_entry_without_text_for_its_own_text_and_looks_at_so_much_only() -> None:
    assert value(["refund window"], ["the refund windows"], "hit(match=fuzzy)@1", "standard") == 1.0
    long = [{"id": "a", "text": "x" * LONGEST + "refund window"}]
    assert value(["refund window"], long, "hit(match=fuzzy)@1", "standard") == 0.0


def test_ids_and_texts_can_be_asked_for_together() -> None:
    retrieved = [{"id": "d1", "text": "the refund window"}, {"id": "d2"}]
    found = rows({"d2": 2, "refund window": 1}, retrieved, "recall@2,recall(match=fuzzy)@2,ndcg@2", "standard")
    assert [value for value, _ in found.values()] == [
        0.5,
        1.0,
        pytest.approx(2 / math.log2(3) / (2 + 1 / math.log2(3))),
    ]


# What a dialect has.


@pytest.mark.parametrize(
    ("dialect", "metrics", "message"),
    [
        ("remem", "mrr", "dialect remem has no mrr; it has recall, recall_all, ndcg_any"),
        ("adhdecode", "hit(rel=2)", "dialect adhdecode has no parameter rel; it has none"),
        ("eval-harness", "ndcg(gain=exp2)@5", "dialect eval-harness has no parameter gain; it has case_sensitive"),
        ("autorag", "recall(match=fuzzy)", "no parameter match"),
        ("standard", "recall(threshold=80)", "threshold means nothing without match=fuzzy"),
    ],
)
def test_what_a_dialect_lacks_is_refused_with_what_it_has(dialect: str, metrics: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        pipeline.evaluate([], [], metrics, dialect)


def test_every_dialect_names_only_what_there_is() -> None:
    params = {param.name for entry in CATALOG.values() for param in entry.params}
    for dialect in DIALECTS.values():
        assert set(dialect.metrics) <= set(CATALOG)
        assert {*dialect.differs, *dialect.kernels, *dialect.chunks, *dialect.whole_list} <= set(dialect.metrics)
        assert set(dialect.params) <= params
        require(find(dialect.name), parse_list(dialect.metrics))
        for name in dialect.metrics:
            assert callable(measure(dialect, parse(name)))
            assert matching(dialect, parse(name)).how in ("id", "chunk", "span")


def test_a_metric_with_its_own_function_says_how_it_differs() -> None:
    for dialect in DIALECTS.values():
        assert set(dialect.kernels) <= set(dialect.differs)


def test_columns_follow_the_same_rules_as_records() -> None:
    def statuses(gold: pa.Array, retrieved: pa.Array, metric: str, dialect: str) -> list[tuple[Any, str]]:
        ids = [str(i) for i in range(len(gold))]
        samples = pa.table({"id": ids, "expected_output": gold})
        found = pipeline.evaluate(samples, pa.table({"id": ids, "retrieved": retrieved}), metric, dialect)
        assert found.ledger["balanced"]
        return [(row["value"], row["status"]) for row in found.rows.sort_by("sample_id").to_pylist()]

    strings, error = pa.array([["1"], ["1"]]), (None, "error")
    assert statuses(pa.array([[1], []]), strings, "mrr", "eval-harness") == [error, error]
    assert statuses(strings, pa.array([[1], [1]]), "mrr", "eval-harness") == [error, error]
    assert statuses(strings, pa.array([[{"id": 1}], [{"id": 1}]]), "mrr", "eval-harness") == [error, error]
    groups = pa.array([[["1"], []], [["1", "2"], ["1"]]])
    assert statuses(groups, strings, "mrr", "autorag") == [(None, "no_relevant"), (1.0, "scored")]
    assert statuses(groups, pa.array([["1"], []], pa.list_(pa.string())), "mrr", "autorag")[1] == (None, "bad_output")
    # Three mentions, two entries: the ideal is cut to the list's length.
    repeats = pa.array([["x", "1"], ["x", "1"]])
    assert statuses(groups, repeats, "ndcg", "autorag")[1][0] == pytest.approx(
        1 / math.log2(3) / (1 + 1 / math.log2(3))
    )
