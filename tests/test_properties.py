"""What must hold of every metric of the catalogue, whatever the records; read off CATALOG, so a new metric is in it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph import wants
from pipeline.plan import make_plan
from transforms.dialects import DIALECTS
from transforms.join import fold, join
from transforms.metrics.catalog import CATALOG, parse
from transforms.parse import Source, parse_outputs, parse_samples
from transforms.records import MetricRows, Rows
from transforms.score import Scoring, score

SOURCES = (Source("samples", 0, "s"), Source("outputs", 1, "o"))
CUTTABLE = [name for name, entry in CATALOG.items() if entry.takes_cutoff]

# A deeper cutoff can only add to these. It dilutes a share of k, and raises the ideal of a DCG.
GROWING = ("hit", "recall", "recall_all", "mrr", "map", "rbp", "containment", "coverage")
SHRINKS_OR_GROWS = {
    "precision": "k is below the line",
    "f1": "precision is in it",
    "ndcg": "the ideal grows with k",
    "ndcg_any": "the ideal grows with k",
    "judged": "k is below the line",
}
NEVER_ONE = {"rbp": "a reader who goes on for ever never gets to the end of the sum"}

documents = st.sampled_from(["paris", "Paris is big", "rome", "d1", "d2", "d3", "d4", "é"])
golds = st.one_of(
    st.lists(documents, max_size=5),
    st.dictionaries(documents, st.sampled_from([-1, 0, 0.5, 1, 2, 3]), max_size=5),
    st.lists(st.lists(documents, max_size=3), min_size=1, max_size=3),
    st.just("paris"),
)
entries = st.one_of(documents, st.fixed_dictionaries({"id": documents, "text": st.none() | documents}))
records = st.lists(
    st.tuples(golds, st.none() | st.lists(entries, max_size=8), st.integers(1, 6), st.none() | st.just("paris")),
    min_size=1,
    max_size=6,
)
Record = tuple[Any, Any, int, str | None]


def scored(found: list[Record], metrics: list[str], dialect: str = "standard") -> MetricRows:
    """Through parse, join, judge and score, as one block."""
    plan = make_plan({"metrics": metrics, "dialect": dialect}, {}, require=())
    wanted = wants(plan)
    samples = [
        {"id": f"q{i}", "expected_output": gold, "answer": answer, "metadata": {"k": k}}
        for i, (gold, _, k, answer) in enumerate(found)
    ]
    outputs = [{"id": f"q{i}", "retrieved": listed} for i, (_, listed, _, _) in enumerate(found) if listed is not None]
    left = parse_samples(Rows(list(range(len(samples))), samples), SOURCES[0], wanted).block
    right = parse_outputs(Rows(list(range(len(outputs))), outputs), SOURCES[1], wanted).block
    joined, _, _ = join(fold(left), fold(right), SOURCES, DIALECTS[dialect].keeps_flawed)
    return score(joined, Scoring(plan.metrics, 5, dialect, "zero"))


def spellings(names: Any) -> list[str]:
    """Every metric bare, cut, at each sample's own k, and with the parameters that change what is found."""
    found = []
    for name in names:
        params = {param.name for param in CATALOG[name].params}
        forms = [name, *([f"{name}(match=fuzzy)"] if "match" in params else [])]
        found += forms + [f"{form}@{cut}" for form in forms for cut in (1, 3, "k") if CATALOG[name].takes_cutoff]
    return found


@given(records)
def test_values_lie_in_the_range_or_are_undefined(found: list[Record]) -> None:
    rows = scored(found, spellings(CATALOG))
    assert all(entry.range == "[0, 1]" for entry in CATALOG.values())
    assert np.all(np.isnan(rows.values) | ((rows.values >= 0) & (rows.values <= 1)))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(found=records)
@settings(max_examples=40)
def test_a_value_does_not_depend_on_its_block(dialect: str, found: list[Record]) -> None:
    metrics = [str(parse(name)) for name in DIALECTS[dialect].metrics]
    metrics += [f"{name}@3" for name in metrics if name in CUTTABLE]
    together = scored(found, metrics, dialect)
    by_id = dict(zip(together.sample_ids.to_pylist(), range(len(together.outcome)), strict=True))
    for size in (1, 2):
        for first in range(0, len(found), size):
            part = scored(found[first : first + size], metrics, dialect)
            for at, sample_id in enumerate(part.sample_ids.to_pylist()):
                there = by_id[f"q{int(sample_id[1:]) + first}"]
                assert part.values[:, at].tobytes() == together.values[:, there].tobytes()
                assert part.status[:, at].tolist() == together.status[:, there].tolist()


@pytest.mark.parametrize("name", GROWING)
@given(found=records)
@settings(max_examples=40)
def test_a_deeper_cutoff_never_lowers_what_only_adds_up(name: str, found: list[Record]) -> None:
    values = scored(found, [f"{name}@{k}" for k in range(1, 10)] + [name]).values
    assert np.all(np.isnan(values[1:]) | (np.diff(values, axis=0) >= 0))


def test_every_metric_with_a_cutoff_grows_or_has_a_reason() -> None:
    assert {*GROWING, *SHRINKS_OR_GROWS} == set(CUTTABLE)


@pytest.mark.parametrize("name", [name for name in CATALOG if name not in NEVER_ONE])
@given(gains=st.dictionaries(documents, st.sampled_from([1, 2, 3]), min_size=1), cut=st.booleans())
@settings(max_examples=40)
def test_the_ideal_ranking_scores_one(name: str, gains: dict[str, int], cut: bool) -> None:
    ideal = [{"id": doc, "text": "in Paris"} for doc in sorted(gains, key=lambda doc: -gains[doc])]
    metric = f"{name}@k" if cut and name in CUTTABLE else name
    assert scored([(gains, ideal, len(ideal), "paris")], [metric]).values.tolist() == [[1.0]]


@pytest.mark.parametrize("name", CUTTABLE)
@given(found=records, more=st.lists(st.sampled_from(["x1", "x2", "x3", "x4"]), max_size=4))
@settings(max_examples=40)
def test_irrelevant_documents_past_the_cutoff_change_nothing(name: str, found: list[Record], more: list[str]) -> None:
    full = [(gold, [*listed, "y1", "y2", "y3"], k, a) for gold, listed, k, a in found if listed is not None]
    longer = [(gold, [*listed, *more], k, answer) for gold, listed, k, answer in full]
    if full:
        before, after = (scored(each, [f"{name}@1", f"{name}@3"]).values for each in (full, longer))
        assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("name", [name for name in CATALOG if name != "containment"])
def test_a_text_as_gold_leaves_a_ranking_metric_undefined(name: str) -> None:
    assert np.isnan(scored([("paris", ["paris"], 3, None)], [name]).values).all()
