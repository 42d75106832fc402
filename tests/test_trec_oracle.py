"""10,000 random topics against the tools whose numbers people compare with: pytrec_eval (trec_eval) and ir_measures.

Scores are tied on purpose, so the lists are put in trec_eval's order first: by score, then by document id, both
descending.
"""

import math
import random
from dataclasses import dataclass
from typing import Any

import ir_measures
import pytest
import pytrec_eval

import pipeline
from transforms.metrics.catalog import CATALOG, Metric, parse

TOPICS = 10_000

# trec_eval's own spellings. rel=2 and 3 by its relevance level.
TREC_EVAL = (
    *("P_5", "P_30", "recall_5", "recall_100", "success_1", "success_10", "map", "map_cut_10", "map_cut_100"),
    *("recip_rank", "Rprec", "bpref", "set_P", "set_recall", "set_F"),
)
GRADED = ("ndcg", "ndcg_cut_5", "ndcg_cut_30")  # they read gains, whatever the relevance level
IR_MEASURES = (
    *("nDCG@10", "nDCG", "R@10", "P@10", "P(rel=2)@5", "R(rel=3)@20", "AP", "AP(rel=2)@20", "RR", "RR(rel=2)"),
    *("Success@3", "Success(rel=2)@5", "Rprec", "Rprec(rel=2)", "Bpref", "Bpref(rel=2)", "SetP", "SetR", "SetF"),
)
# ir_measures leaves a cut RR to MS MARCO's script, which orders ties by ascending id, not as trec_eval does. So it gets
# the same lists with their ties broken already.
MS_MARCO = ("RR@3", "RR(rel=2)@10")
NOT_SHARED = {
    "recall_all": "neither has it",
    "ndcg_any": "neither has it; it is their nDCG of gains of 1, which a test below holds it against",
    "rbp": "ir_measures asks the cwl package, which is not installed; tests/oracle.py has it",
    "judged": "ir_measures divides by the list where it is shorter than k; tests/test_ranking.py compares the rest",
    "containment": "of texts, which neither reads",
    "coverage": "their Success of the whole list, which has no name there",
}


@dataclass
class Collection:
    qrels: dict[str, dict[str, int]]
    run: dict[str, dict[str, float]]
    samples: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    nothing_relevant: set[str]


@pytest.fixture(scope="module")
def collection() -> Collection:
    rng = random.Random(20261118)
    pool = [f"doc-{i}" for i in range(400)]
    found = Collection({}, {}, [], [], set())
    for number in range(TOPICS):
        topic = f"q{number}"
        relevant = rng.randint(0, 50)
        judged = rng.sample(pool, relevant + rng.randint(1, 30))
        gains = {doc: rng.randint(1, 4) for doc in judged[:relevant]}
        gains |= {doc: rng.choice((0, 0, 0, -1, -2)) for doc in judged[relevant:]}
        # pytrec_eval 0.5.11 dies of SIGSEGV on a topic with nothing above -2, so no topic is left like that.
        if max(gains.values()) < -1:
            gains[judged[0]] = -1
        found.qrels[topic] = gains
        found.samples.append({"id": topic, "expected_output": gains})
        if relevant == 0:
            found.nothing_relevant.add(topic)
        listed = rng.sample(judged, rng.randint(0, len(judged))) + rng.sample(pool, rng.randint(0, 150))
        scores = {doc: rng.randint(0, 60) / 4 for doc in listed[:200]}
        if scores and rng.random() < 0.95:  # the others are missing from the run
            found.run[topic] = scores
            ranked = sorted(scores, key=lambda doc: (scores[doc], doc.encode()), reverse=True)
            found.outputs.append({"id": topic, "retrieved": ranked})
    return found


def ours(
    collection: Collection, metrics: list[str], dialect: str
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Metric → topic → value, and metric → mean."""
    found = pipeline.evaluate(collection.samples, collection.outputs, metrics, dialect)
    assert found.ledger["balanced"]
    values: dict[str, dict[str, Any]] = {metric: {} for metric in metrics}
    rows = found.rows
    for topic, metric, value in zip(
        rows["sample_id"].to_pylist(), rows["metric"].to_pylist(), rows["value"].to_pylist(), strict=True
    ):
        values[metric][topic] = value
    return values, {row["metric"]: row["mean"] for row in found.summary.to_pylist()}


def agree(collection: Collection, theirs: dict[str, dict[str, float]]) -> None:
    """Every topic, and the mean over all topics, those missing from the run as 0."""
    values, means = ours(collection, list(theirs), "trec")
    for metric, expected in theirs.items():
        wrong = {t: v for t, v in values[metric].items() if abs(v - expected.get(t, 0.0)) > 1e-9}
        assert not wrong, (metric, dict(list(wrong.items())[:3]))
        assert len(values[metric]) == TOPICS
        assert means[metric] == pytest.approx(math.fsum(expected.values()) / TOPICS, abs=1e-9), metric


@pytest.mark.slow
@pytest.mark.parametrize("rel", [1, 2, 3])
def test_trec_eval_gives_the_same_numbers(collection: Collection, rel: int) -> None:
    spellings = TREC_EVAL + (GRADED if rel == 1 else ())
    evaluator = pytrec_eval.RelevanceEvaluator(collection.qrels, families(spellings), relevance_level=rel)
    found = evaluator.evaluate(collection.run)
    theirs = {
        str(with_rel(parse(spelling), rel)): {topic: values[spelling] for topic, values in found.items()}
        for spelling in spellings
    }
    assert set(found) == set(collection.run)
    agree(collection, theirs)


@pytest.mark.slow
def test_ir_measures_gives_the_same_numbers(collection: Collection) -> None:
    untied = {each["id"]: {doc: -float(i) for i, doc in enumerate(each["retrieved"])} for each in collection.outputs}
    theirs: dict[str, dict[str, float]] = {}
    for spellings, run in ((IR_MEASURES, collection.run), (MS_MARCO, untied)):
        measures = {ir_measures.parse_measure(spelling): str(parse(spelling)) for spelling in spellings}
        theirs |= {name: {} for name in measures.values()}
        for found in ir_measures.iter_calc(list(measures), collection.qrels, run):
            theirs[measures[found.measure]][found.query_id] = found.value
    agree(collection, theirs)


@pytest.mark.slow
def test_ndcg_any_is_their_ndcg_of_gains_of_one(collection: Collection) -> None:
    binary = {topic: {doc: min(gain, 1) for doc, gain in gains.items()} for topic, gains in collection.qrels.items()}
    found = pytrec_eval.RelevanceEvaluator(binary, {"ndcg_cut.10", "ndcg"}).evaluate(collection.run)
    spelled = {"ndcg_any@10": "ndcg_cut_10", "ndcg_any": "ndcg"}
    agree(collection, {n: {topic: values[s] for topic, values in found.items()} for n, s in spelled.items()})


@pytest.mark.slow
def test_the_standard_differs_only_where_nothing_is_relevant(collection: Collection) -> None:
    metrics = [str(parse(spelling)) for spelling in (*TREC_EVAL, *GRADED)]
    metrics += ["recall_all@10", "ndcg_any@10", "rbp", "judged@10", "coverage", "f1@10", "hit@5"]
    metrics = list(dict.fromkeys(metrics))
    standard, _ = ours(collection, metrics, "standard")
    trec, _ = ours(collection, metrics, "trec")
    assert len(collection.nothing_relevant) > 50
    for metric in metrics:
        for topic, value in standard[metric].items():
            if topic in collection.nothing_relevant:
                assert (value, trec[metric][topic]) == (None, 0.0)
            else:
                assert value == trec[metric][topic]


def test_every_metric_is_shared_or_has_a_reason() -> None:
    shared = {parse(spelling).name for spelling in (*TREC_EVAL, *GRADED, *IR_MEASURES)}
    assert shared | set(NOT_SHARED) == set(CATALOG)
    assert not shared & set(NOT_SHARED)


def with_rel(metric: Metric, rel: int) -> Metric:
    return metric if rel == 1 else Metric(metric.name, (("rel", float(rel)),), metric.cutoff)


def families(spellings: tuple[str, ...]) -> set[str]:
    """pytrec_eval takes one cutoff family as `P.5,30`, given once."""
    cuts: dict[str, list[str]] = {}
    for spelling in spellings:
        stem, _, last = spelling.rpartition("_")
        if last.isdigit():
            cuts.setdefault(stem, []).append(last)
        else:
            cuts.setdefault(spelling, [])
    return {f"{stem}.{','.join(found)}" if found else stem for stem, found in cuts.items()}
