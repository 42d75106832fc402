"""Lines to queries: pieces, order, ties, copies, and what is counted on the way."""

import random
from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from transforms.group import GroupByQuery, Grouping, cut, group
from transforms.limits import Limits
from transforms.order import Queries, order_lists, without_copies
from transforms.parse import Parsed, Source, Wants
from transforms.records import Long, Refused, unplace

SOURCES = (Source("samples", 0, "a.qrels"), Source("outputs", 1, "a.run"), Source("outputs", 2, "b.run"))
Line = tuple[str, str, float, float]


def long(lines: list[Line], first: int = 1, ranks: bool = True) -> Long:
    """Lines (query, document, value, rank) as a reader would give them."""
    return Long(
        np.arange(first, first + len(lines)),
        pa.array([line[0] for line in lines], pa.string()),
        pa.array([line[1] for line in lines], pa.string()),
        np.array([line[2] for line in lines], np.float64),
        np.array([line[3] for line in lines], np.float64) if ranks else None,
        len(lines),
    )


def run_line(query: str, doc: str, score: float, rank: float = 1) -> Line:
    return query, doc, score, rank


def ranked(blocks: list[Parsed]) -> tuple[dict[str, list[str]], Counter[str]]:
    """Query → documents in order, and all terms."""
    found, terms = {}, Counter[str]()
    for parsed in blocks:
        terms += parsed.terms
        if parsed.block is not None:
            for row in parsed.block.to_pylist():
                found[row["sample_id"]] = row["docs"]
    return found, terms


def grouped(lines: list[Line], ties: str = "trec", **more: Any) -> tuple[dict[str, list[str]], Counter[str]]:
    pieces = cut(long(lines), SOURCES[1]).block
    return ranked(list(group([pieces], Grouping("outputs", SOURCES, Wants(), ties, **more))))


def queries(docs: list[str], scores: list[float]) -> Queries:
    return Queries(
        np.zeros(1, np.int64), pa.array(["q"]), np.array([0, len(docs)]), pa.array(docs), np.array(scores, np.float64)
    )


# 1 + 1e-9 is 1 in float32 and more than 1 in double.
@pytest.mark.parametrize(
    "ties, expected",
    [("trec", ["c", "b", "a", "low"]), ("trec10", ["a", "c", "b", "low"]), ("given", ["b", "low", "a", "c"])],
)
def test_equal_scores_are_ordered_by_the_stated_rule(ties: str, expected: list[str]) -> None:
    lines = [
        run_line("q", "b", 1.0), run_line("q", "low", 0.5), run_line("q", "a", 1.0 + 1e-9), run_line("q", "c", 1.0)
    ]  # fmt: skip
    found, terms = grouped(lines, ties)
    assert found == {"q": expected}
    assert terms["noted.outputs.tied_lists"] == 1


def test_equal_scores_are_ordered_by_the_bytes_of_the_id_descending() -> None:
    # By bytes "é" (C3 A9) is after "z", lower case after upper, and a prefix before what it starts.
    docs = ["a", "B", "z", "é", "aa", "10", "9"]
    found, _ = grouped([run_line("q", doc, 1.0) for doc in docs])
    assert found["q"] == sorted(docs, key=str.encode, reverse=True) == ["é", "z", "aa", "a", "B", "9", "10"]


def test_scores_that_only_float32_cannot_hold_tie_there() -> None:
    order, seen = order_lists(queries(["a", "b"], [1e300, 1e301]), "trec")
    assert (order.tolist(), seen["tied_lists"]) == ([1, 0], 1)
    order, seen = order_lists(queries(["b", "a"], [1e300, 1e301]), "trec10")
    assert (order.tolist(), seen["tied_lists"]) == ([1, 0], 0)


def test_minus_zero_ties_with_zero() -> None:
    order, seen = order_lists(queries(["a", "b"], [0.0, -0.0]), "trec")
    assert (order.tolist(), seen["tied_lists"]) == ([1, 0], 1)


@given(
    st.lists(
        st.tuples(st.sampled_from("pqr"), st.text("abé", min_size=1, max_size=3), st.sampled_from([0, 1, 1.5, 2]))
    ),
    st.integers(1, 7),
)
def test_any_cut_into_blocks_gives_the_order_of_a_plain_sort(lines: list[tuple[str, str, float]], rows: int) -> None:
    given_lines = [run_line(query, doc, score) for query, doc, score in lines]
    pieces = [
        cut(long(given_lines[start : start + rows], 1 + start), SOURCES[1]).block
        for start in range(0, len(lines), rows)
    ]
    random.Random(rows).shuffle(pieces)
    if not pieces:
        return
    found, terms = ranked(list(group(pieces, Grouping("outputs", SOURCES, Wants()))))
    for query in {line[0] for line in lines}:
        entries = sorted({(score, doc.encode()) for each, doc, score in lines if each == query}, reverse=True)
        assert found[query] == list(dict.fromkeys(doc.decode() for _, doc in entries))
    assert terms["noted.outputs.lines_grouped"] == len(lines)
    assert terms["outputs.read"] == len({line[0] for line in lines})


@pytest.mark.parametrize(
    "ranks, scores, expected",
    [
        ([1, 2, 3], [3.0, 2.0, 1.0], 0),
        ([3, 2, 1], [1.0, 2.0, 3.0], 0),  # unsorted lines, but rank and score agree
        ([1, 2, 3], [1.0, 2.0, 3.0], 1),
        ([2, 1, 3], [2.0, 2.0, 1.0], 0),  # among equal scores any rank will do
        ([0, 0, 0], [1.0, 2.0, 3.0], 0),  # a rank that never changes claims nothing
        ([np.nan] * 3, [1.0, 2.0, 3.0], 0),
        ([1, 3, 2], [3.0, 2.0, 1.0], 1),
    ],
)
@pytest.mark.parametrize("ties", ["trec", "trec10", "given"])
def test_ranks_are_held_against_scores_and_never_ranked_by(
    ranks: list[float], scores: list[float], expected: int, ties: str
) -> None:
    lines = [run_line("q", doc, score, rank) for doc, score, rank in zip("abc", scores, ranks, strict=True)]
    found, terms = grouped(lines, ties)
    assert terms["noted.outputs.rank_against_score"] == expected
    if ties != "given" and len(set(scores)) == 3:
        assert found["q"] == [doc for _, doc in sorted(zip(scores, "abc", strict=True), reverse=True)]


def test_a_line_said_twice_is_dropped_and_noted() -> None:
    _, terms = grouped([run_line("q", "a", 1.0), run_line("q", "b", 1.0), run_line("q", "a", 1.0)])
    assert terms["noted.outputs.repeated_lines"] == 1
    assert not terms["noted.outputs.repeated_entries"]


def test_a_document_with_two_scores_is_kept_at_its_better_place() -> None:
    found, terms = grouped([run_line("q", "a", 1.0), run_line("q", "b", 2.0), run_line("q", "a", 3.0)])
    assert found == {"q": ["a", "b"]}
    assert terms["noted.outputs.repeated_entries"] == 1
    assert not terms["noted.outputs.repeated_lines"]


def test_the_same_document_under_two_queries_is_no_copy() -> None:
    both = Queries(np.arange(2), pa.array(["p", "q"]), np.array([0, 1, 2]), pa.array(["a", "a"]), np.ones(2))
    assert without_copies(both)[1] == 0


@pytest.mark.parametrize("order", ["ppq", "pqp"])
def test_refused_lines_are_kept_whether_or_not_queries_are_mixed(order: str) -> None:
    lines = long([run_line(query, f"d{i}", 1.0) for i, query in enumerate(order)])
    lines.refused, lines.lines = [Refused(9, "bad_line", "no", b"x", "")], 4
    parsed = cut(lines, SOURCES[1])
    assert parsed.rejected is not None and parsed.rejected["location"].to_pylist() == ["a.run:9"]
    assert parsed.terms == {
        "outputs.read": 1,
        "outputs.rejected.bad_line": 1,
        "noted.outputs.lines": 4,
        "noted.outputs.lines_rejected": 1,
    }


def qrels(lines: list[tuple[str, str, float]]) -> list[Parsed]:
    pieces = cut(long([(*line, 0.0) for line in lines], ranks=False), SOURCES[0]).block
    return list(group([pieces], Grouping("samples", SOURCES, Wants())))


def test_a_document_graded_twice_spoils_its_query_unless_both_agree() -> None:
    blocks = qrels([("p", "a", 1), ("q", "a", 2), ("p", "a", 1), ("q", "a", 1), ("q", "b", 1)])
    terms = sum((parsed.terms for parsed in blocks), Counter[str]())
    assert terms["noted.samples.repeated_lines"] == 1
    assert (terms["samples.read"], terms["samples.rejected.bad_gold"]) == (2, 1)
    (row,) = [row for parsed in blocks if parsed.rejected is not None for row in parsed.rejected.to_pylist()]
    assert (row["location"], row["code"]) == ("a.qrels:2", "bad_gold")


def test_zero_and_negative_gains_stay_as_they_are() -> None:
    (block,) = [parsed.block for parsed in qrels([("q", "a", 0), ("q", "b", -2), ("q", "c", 1.5)]) if parsed.block]
    (row,) = block.to_pylist()
    assert dict(zip(row["docs"], row["gains"], strict=True)) == {"a": 0.0, "b": -2.0, "c": 1.5}


def test_a_query_over_the_limit_is_refused_at_its_first_line_and_known_to_the_join() -> None:
    lines = [run_line("p", "a", 1.0), *(run_line("q", f"d{i}", 1.0) for i in range(4))]
    pieces = cut(long(lines), SOURCES[1]).block
    blocks = list(group([pieces], Grouping("outputs", SOURCES, Wants(limits=Limits(list_items=3)))))
    found, terms = ranked(blocks)
    assert found == {"p": ["a"], "q": []}
    assert (terms["outputs.read"], terms["outputs.rejected.list_too_long"]) == (2, 1)
    (row,) = [row for parsed in blocks if parsed.rejected is not None for row in parsed.rejected.to_pylist()]
    assert row["location"] == "a.run:2"


def test_pieces_of_several_files_are_one_query_placed_where_it_starts() -> None:
    later = cut(long([run_line("q", "a", 3.0), run_line("p", "x", 1.0)], 5), SOURCES[2]).block
    earlier = cut(long([run_line("q", "b", 2.0)], 9), SOURCES[1]).block
    blocks = list(group([later, earlier], Grouping("outputs", SOURCES, Wants(), "given")))
    found, _ = ranked(blocks)
    assert found == {"q": ["b", "a"], "p": ["x"]}
    at = {row["sample_id"]: row["at"] for parsed in blocks if parsed.block for row in parsed.block.to_pylist()}
    assert {query: [unplace(place) for place in places] for query, places in at.items()} == {
        "q": [(1, 9)],
        "p": [(2, 6)],
    }


@pytest.mark.parametrize("buckets", [1, 3, 64])
def test_the_step_gives_the_same_whatever_the_buckets(buckets: int) -> None:
    rng = random.Random(5)
    lines = [run_line(f"q{rng.randrange(20)}", f"d{i}", rng.choice([1.0, 2.0, 3.0])) for i in range(300)]
    expected, terms = grouped(lines)
    pieces = [cut(long(lines[start : start + 17], 1 + start), SOURCES[1]).block for start in range(0, 300, 17)]

    def same_lists(blocks: list[pa.RecordBatch]) -> None:
        assert {row["sample_id"]: row["docs"] for block in blocks for row in block.to_pylist()} == expected

    def same_terms(found: list[tuple[str, int]]) -> None:
        total = Counter[str]()
        for term, count in found:
            total[term] += count
        assert total == terms

    with test_pipeline.TestPipeline(runner="FnApiRunner") as root:
        step = GroupByQuery(Grouping("outputs", SOURCES, Wants()), buckets)
        out = root | beam.Create(pieces) | step
        assert_that(out.blocks, same_lists, label="lists")
        assert_that(out.terms, same_terms, label="terms")
