"""Judgement and scoring of joined blocks, against the slow and obvious way."""

import random
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms import judge as judge_module
from transforms.hashing import hash_column
from transforms.join import Joined, fold, join
from transforms.judge import judge
from transforms.metrics.catalog import parse_list
from transforms.metrics.judged import Judged
from transforms.parse import Source, Wants, parse_outputs, parse_samples
from transforms.records import Rows, Status
from transforms.score import Scoring, score
from transforms.sieve import SieveCombineFn

from . import oracle
from .build import Topic, judged_block

SOURCES = (Source("samples", 0, "s"), Source("outputs", 1, "o"))

docs = st.sampled_from([f"doc-{i}" for i in range(8)] + ["é", "d" * 70])
golds = st.one_of(
    st.lists(docs, max_size=6),
    st.dictionaries(docs, st.sampled_from([0, 1, 2, 3, 0.5, -1]), max_size=6),
    st.lists(st.lists(docs, min_size=1, max_size=4), min_size=1, max_size=4),
)
topics = st.builds(Topic, golds, st.lists(docs, max_size=12), st.integers(1, 6))


def joined_block(found: list[Topic], sieved: bool = False) -> Joined:
    numbers = list(range(1, len(found) + 1))
    samples = [{"id": f"q-{i}", "expected_output": t.gold, "metadata": {"k": t.k}} for i, t in enumerate(found)]
    outputs = [{"id": f"q-{i}", "retrieved": t.retrieved} for i, t in enumerate(found)]
    random.Random(len(found)).shuffle(outputs)
    left = parse_samples(Rows(numbers, samples), SOURCES[0], Wants()).block
    sieve = None
    if sieved:
        combine = SieveCombineFn(10)
        sieve = combine.extract_output(combine.add_input(combine.create_accumulator(), left))
    right = parse_outputs(Rows(numbers, outputs), SOURCES[1], Wants(), sieve).block
    return join(fold(left), fold(right), SOURCES)[0]


def matches(judged: Judged) -> set[tuple[int, int]]:
    return set(zip(judged.group_row[judged.match_group].tolist(), judged.match_rank.tolist(), strict=True))


def same(left: Judged, right: Judged) -> None:
    for field in fields(Judged):
        ours, theirs = getattr(left, field.name), getattr(right, field.name)
        if field.name in ("group_gain", "group_rank"):
            # Which group of a sample comes first is nobody's business.
            ours, theirs = (
                sorted(zip(side.group_row, side.group_gain, side.group_rank, strict=True)) for side in (left, right)
            )
            assert ours == theirs
        elif field.name in ("match_group", "match_rank"):
            # As sets: a group that names a document twice finds it twice.
            assert matches(left) == matches(right)
        else:
            assert np.array_equal(ours, theirs), field.name


@given(st.lists(topics, max_size=12), st.booleans())
def test_judgement_is_exact_with_and_without_a_sieve(found: list[Topic], sieved: bool) -> None:
    same(judge(joined_block(found, sieved)), judged_block(found))


@pytest.mark.parametrize("distinct", [1, 2, 5])
@given(found=st.lists(topics, max_size=8))
def test_equal_hashes_make_no_match(found: list[Topic], distinct: int) -> None:
    def poor(column: pa.Array) -> np.ndarray:
        return hash_column(column) % np.uint64(distinct)

    joined = joined_block(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge_module, "hash_column", poor)
        patch.setattr(judge_module, "pair_hashes", lambda rows, hashes: hashes.copy())
        same(judge(joined), judged_block(found))


def test_a_document_of_another_sample_is_not_judged() -> None:
    found = judge(joined_block([Topic(["a"], ["b"]), Topic(["b"], ["a"])]))
    assert len(found.row) == 0


def test_one_id_in_many_groups_is_found_in_each_and_judged_once() -> None:
    groups = 20_000
    found = judge(joined_block([Topic([["a", str(i)] for i in range(groups)], ["x", "a"])]))
    assert found.row.tolist() == [0]
    assert (found.group_rank == 2).sum() == groups


def test_outputs_that_are_not_to_be_read_give_no_entries() -> None:
    samples = [{"id": i, "expected_output": ["a"]} for i in "pqrs"]
    outputs: list[dict[str, Any]] = [
        {"id": "p", "retrieved": ["a"], "error": "timeout"},
        {"id": "q", "retrieved": ["a"]},
        {"id": "q", "retrieved": ["a", "b"]},
        {"id": "r", "retrieved": ["a", ""]},
    ]
    left = parse_samples(Rows([1, 2, 3, 4], samples), SOURCES[0], Wants()).block
    right = parse_outputs(Rows([1, 2, 3, 4], outputs), SOURCES[1], Wants()).block
    found = judge(join(fold(left), fold(right), SOURCES)[0])
    assert len(found.row) == 0
    assert found.length.tolist() == [0, 0, 0, 0]


WHOLE_LIST = ("r_precision", "bpref")
METRICS = parse_list(
    [f"{name}{cut}" for name in oracle.ORACLE for cut in ("", "@3", "@k") if not cut or name not in WHOLE_LIST]
)


@given(st.lists(topics, min_size=1, max_size=8))
def test_scores_equal_the_oracle(found: list[Topic]) -> None:
    rows = score(joined_block(found), Scoring(METRICS, 5, "standard", "zero"))
    for m, metric in enumerate(METRICS):
        for i, sample_id in enumerate(rows.sample_ids.to_pylist()):
            topic = found[int(sample_id[2:])]
            cutoff = topic.k if metric.cutoff == "k" else metric.cutoff
            expected = oracle.value(metric.name, topic.gold, topic.retrieved, cutoff, **dict(metric.params))
            if expected is None:
                assert np.isnan(rows.values[m, i])
                assert rows.status[m, i] == Status.NO_RELEVANT
            else:
                assert rows.values[m, i] == expected, (str(metric), topic)
                assert rows.status[m, i] == Status.SCORED


def outcome_rows(dialect: str, missing: str) -> list[tuple[float, Status]]:
    """recall of: a hit, nothing, an error, a conflict, a bad output, and of nothing relevant without an output."""
    samples = [{"id": i, "expected_output": ["a"]} for i in "abcde"] + [{"id": "f", "expected_output": []}]
    outputs: list[dict[str, Any]] = [
        {"id": "a", "retrieved": ["a"]},
        {"id": "c", "retrieved": ["a"], "error": "timeout"},
        {"id": "d", "retrieved": ["a"]},
        {"id": "d", "retrieved": ["b"]},
        {"id": "e", "retrieved": 7},
    ]
    left = parse_samples(Rows(list(range(6)), samples), SOURCES[0], Wants()).block
    right = parse_outputs(Rows(list(range(5)), outputs), SOURCES[1], Wants()).block
    joined = join(fold(left), fold(right), SOURCES)[0]
    rows = score(joined, Scoring(parse_list("recall"), 5, dialect, missing))
    values = [None if np.isnan(value) else value for value in rows.values[0].tolist()]
    return list(zip(values, map(Status, rows.status[0].tolist()), strict=True))


def test_every_outcome_has_its_value_and_its_status() -> None:
    answered = [(1.0, Status.SCORED), (0.0, Status.MISSING_OUTPUT), (0.0, Status.ERROR), (0.0, Status.CONFLICT)]
    answered.append((0.0, Status.BAD_OUTPUT))
    assert outcome_rows("standard", "zero") == [*answered, (None, Status.NO_RELEVANT)]
    assert outcome_rows("trec", "zero") == [*answered, (0.0, Status.MISSING_OUTPUT)]
    answered[1] = (None, Status.MISSING_OUTPUT)
    assert outcome_rows("standard", "skip") == [*answered, (None, Status.NO_RELEVANT)]
