import math
import random
import re
from functools import cache
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from tests import oracle
from tests.build import Topic, concatenated, cutoffs, judged_block
from transforms.metrics import ranking
from transforms.metrics.catalog import CATALOG, Metric, parse, parse_list
from transforms.metrics.judged import WHOLE, Judged

# Every metric, bare and with each parameter, over the whole list, at fixed cutoffs and at each sample's own.
RANKED = {name: entry for name, entry in CATALOG.items() if name in oracle.ORACLE}
CUTS = ("", "@1", "@3", "@50", "@k")
ASKED = parse_list(
    [
        *(name + cut for name, entry in RANKED.items() for cut in CUTS if entry.takes_cutoff or not cut),
        *(f"{name}(rel=2)" for name, entry in RANKED.items() if "rel" in [param.name for param in entry.params]),
        *("ndcg(gain=exp2)", "ndcg(gain=exp2)@k", "rbp(p=0.5)@k", "rbp(p=0.95,rel=2)"),
        *("recall(rel=1.5)@3", "f1(rel=2)@k"),
    ]
)
PERFECTIBLE = (
    "hit",
    "recall",
    "recall_all",
    "precision",
    "f1",
    "mrr",
    "map",
    "ndcg",
    "ndcg_any",
    "r_precision",
    "bpref",
)
PERFECTIBLE += ("judged",)

WORKED = Topic(["doc-3", "doc-9"], ["doc-7", "doc-3", "doc-1", "doc-9", "doc-2"])


def scores(metric: Metric, topics: list[Topic], block: Judged | None = None) -> list[float | None]:
    values = measured(metric, topics, block)
    return [None if math.isnan(value) else value for value in values.tolist()]


def measured(metric: Metric, topics: list[Topic], block: Judged | None = None) -> np.ndarray:
    block = block_of(topics) if block is None else block
    return CATALOG[metric.name].measure(block, cutoffs(topics, metric.cutoff), **dict(metric.params))


_BLOCKS: dict[int, tuple[list[Topic], Judged]] = {}


def block_of(topics: list[Topic]) -> Judged:
    """The topics as a block, built once for the long lists that many tests share."""
    if len(topics) < 100:
        return judged_block(topics)
    if id(topics) not in _BLOCKS:
        _BLOCKS[id(topics)] = (topics, judged_block(topics))  # holding the list keeps its id from being given again
    return _BLOCKS[id(topics)][1]


def expected(metric: Metric, topic: Topic) -> float | None:
    k = topic.k if metric.cutoff == "k" else metric.cutoff
    return oracle.value(metric.name, topic.gold, topic.retrieved, k, **dict(metric.params))


@cache
def random_topics(count: int, seed: int, gains: tuple[float, ...], repeats: bool = True) -> list[Topic]:
    rng = random.Random(seed)
    pool = [f"d{i}" for i in range(30)]
    topics = []
    for _ in range(count):
        docs = rng.sample(pool, rng.randrange(13))
        shape = rng.randrange(4)
        if shape == 0:
            gold = docs
        elif shape == 1:
            gold = [rng.sample(pool, rng.randint(1, 3)) for _ in range(rng.randrange(4))]
        else:
            gold = {doc: rng.choice(gains) for doc in docs}
        length = rng.randrange(25)
        retrieved = rng.choices(pool, k=length) if repeats and rng.random() < 0.3 else rng.sample(pool, length)
        topics.append(Topic(gold, retrieved, rng.randint(1, 12)))
    return topics


INTEGER_GAINS = (-2, -1, 0, 0, 1, 1, 2, 3, 4)


def test_every_metric_has_an_oracle_or_a_reason_for_none():
    assert {*oracle.ORACLE, *oracle.TEXT_ORACLE, *oracle.NO_ORACLE} == set(CATALOG)
    assert all(len(reason) > 20 for reason in oracle.NO_ORACLE.values())
    assert not set(oracle.NO_ORACLE) & {*oracle.ORACLE, *oracle.TEXT_ORACLE}


def test_the_diff_that_contributing_shows_is_in_the_code():
    root = Path(__file__).parent.parent
    diff = re.search(r"```diff\n(.*?)```", (root / "CONTRIBUTING.md").read_text(), re.DOTALL)
    code: list[str] = []
    for line in diff[1].splitlines():
        if line.startswith("--- "):
            code = (root / line.removeprefix("--- ")).read_text().splitlines()
        else:
            assert line.removeprefix("+") in code, line


@pytest.mark.parametrize("metric", ASKED, ids=str)
def test_a_metric_equals_its_oracle_to_the_last_bit(metric):
    topics = random_topics(3000, 1, INTEGER_GAINS)
    assert scores(metric, topics) == [expected(metric, topic) for topic in topics]


@pytest.mark.parametrize("metric", ASKED, ids=str)
def test_fractional_gains_score_as_the_oracle_says(metric):
    topics = random_topics(500, 2, (-0.5, 0.0, 0.1, 0.25, 1 / 3, 1.5, 1.7, 2.0, 9.9))
    got, wanted = scores(metric, topics), [expected(metric, topic) for topic in topics]
    assert [value is None for value in got] == [value is None for value in wanted]
    assert [v for v in got if v is not None] == pytest.approx([v for v in wanted if v is not None], rel=1e-14, abs=0)


@pytest.mark.parametrize("metric", ASKED, ids=str)
def test_a_value_does_not_depend_on_its_block(metric):
    topics = random_topics(300, 3, (*INTEGER_GAINS, 0.3, 1.7))
    whole = measured(metric, topics).tobytes()
    for size in (1, 7, 64):
        parts = in_parts(size)
        assert b"".join(measured(metric, part, block).tobytes() for part, block in parts) == whole
        joined = concatenated(block for _, block in parts)
        assert measured(metric, topics, joined).tobytes() == whole


@cache
def in_parts(size: int) -> list[tuple[list[Topic], Judged]]:
    topics = random_topics(300, 3, (*INTEGER_GAINS, 0.3, 1.7))
    parts = [topics[start : start + size] for start in range(0, len(topics), size)]
    return [(part, judged_block(part)) for part in parts]


@pytest.mark.parametrize("metric", ASKED, ids=str)
def test_values_lie_between_0_and_1_or_are_undefined(metric):
    topics = random_topics(2000, 4, (-1.0, 0.0, 5e-324, 0.1, 3.0, 1e9, 1.7e308))
    values = measured(metric, topics)
    assert values.dtype == np.float64
    assert np.all(np.isnan(values) | ((values >= 0) & (values <= 1)))
    least = dict(metric.params).get("rel", 5e-324)
    wanted = [any(gain >= least for gain in oracle.gains_of(topic.gold).values()) for topic in topics]
    assert np.array_equal(~np.isnan(values), wanted)


@pytest.mark.parametrize("metric", ASKED, ids=str)
def test_an_empty_list_scores_zero_and_an_empty_block_nothing(metric):
    assert scores(metric, [Topic({"a": 3.0}), Topic({"a": 0.0}), Topic([])]) == [0.0, None, None]
    assert measured(metric, []).shape == (0,)


@pytest.mark.parametrize("metric", [metric for metric in ASKED if metric.name in PERFECTIBLE], ids=str)
def test_the_ideal_ranking_scores_one(metric):
    rng = random.Random(5)
    for _ in range(200):
        gains = {f"d{i}": float(rng.randint(2, 4)) for i in range(rng.randint(1, 9))}
        ideal = sorted(gains, key=lambda doc: -gains[doc])
        k = len(gains)
        exact = Metric(metric.name, metric.params, None if metric.cutoff is None else k)
        assert scores(exact, [Topic(gains, ideal, k)]) == [1.0]


@pytest.mark.parametrize("name", ["hit", "recall", "recall_all", "mrr", "map", "rbp", "coverage"])
def test_a_deeper_cutoff_never_lowers_what_only_adds_up(name):
    topics = random_topics(500, 6, INTEGER_GAINS)
    values = np.array([measured(Metric(name, (), k), topics) for k in range(1, 26)])
    assert np.all((np.diff(values, axis=0) >= 0) | np.isnan(values[1:]))


@pytest.mark.parametrize("metric", [m for m in ASKED if m.cutoff is not None], ids=str)
def test_documents_past_the_cutoff_change_nothing(metric):
    topics = random_topics(500, 7, INTEGER_GAINS, repeats=False)
    k = [topic.k if metric.cutoff == "k" else metric.cutoff for topic in topics]
    cut = [Topic(topic.gold, topic.retrieved[:depth], topic.k) for topic, depth in zip(topics, k, strict=True)]
    assert measured(metric, cut).tobytes() == measured(metric, topics).tobytes()


def test_the_worked_example_is_exact():
    values = {str(metric): scores(metric, [WORKED])[0] for metric in parse_list("hit@5,recall@5,mrr,ndcg@5,map,f1@5")}
    assert values == {
        "hit@5": 1.0,
        "recall@5": 1.0,
        "mrr": 0.5,
        "ndcg@5": 0.6509209298071326,
        "map": 0.5,
        "f1@5": 2 * 0.4 / 1.4,
    }


def test_repeats_are_taken_out_before_the_cutoff():
    assert scores(parse("recall@2"), [Topic(["b"], ["a", "a", "b"])]) == [1.0]


def test_groups_count_in_recall_and_their_union_elsewhere():
    topics = [Topic([["a", "b"], ["c"]], ["x", "b", "a"]), Topic([["a", "b"], ["c"]], ["c", "b"])]
    assert scores(parse("recall@3"), topics) == [0.5, 1.0]
    assert scores(parse("recall_all@3"), topics) == [0.0, 1.0]
    assert scores(parse("precision@2"), topics) == [0.5, 1.0]
    assert scores(parse("f1@2"), topics) == [0.5, 1.0]
    assert scores(parse("mrr"), topics) == [0.5, 1.0]


def test_precision_without_a_cutoff_divides_by_the_lists_length():
    topics = [Topic(["a"], ["a", "x", "y", "z"])]
    assert scores(parse("precision"), topics) == [0.25]
    assert scores(parse("precision@8"), topics) == [0.125]


def test_ranks_in_the_millions_are_within_the_tables():
    deep = 2_000_000
    block = Judged(
        n=1,
        row=np.array([0]),
        rank=np.array([deep]),
        gain=np.array([1.0]),
        first=np.array([True]),
        length=np.array([deep]),
        gold_row=np.array([0]),
        gold_gain=np.array([1.0]),
        group_row=np.array([0]),
        group_gain=np.array([1.0]),
        group_rank=np.array([deep]),
        match_group=np.array([0]),
        match_rank=np.array([deep]),
        listed=np.array([1]),
    )
    whole = np.array([WHOLE])
    assert CATALOG["ndcg"].measure(block, whole).tolist() == [1 / math.log2(deep + 1)]
    assert CATALOG["mrr"].measure(block, whole).tolist() == [1 / deep]
    assert CATALOG["rbp"].measure(block, whole, p=0.999999).tolist() == [(1 - 0.999999) * 0.999999 ** (deep - 1)]


def test_the_discount_is_the_logarithm_of_the_math_module():
    ranks = np.arange(1, 100_001)
    assert ranking.discount(ranks).tolist() == [math.log2(rank + 1) for rank in ranks.tolist()]


def test_rounding_never_lifts_a_value_above_one():
    docs = [f"d{i}" for i in range(200)]
    for p in (0.1, 0.3, 0.6, 0.7):
        assert scores(Metric("rbp", (("p", p),)), [Topic(docs, docs)])[0] <= 1.0
    # Gains a bit or two apart, ranked upside down: the sum of the worse order may come out the larger one.
    rng = random.Random(9)
    topics = [Topic({doc: 1 + rng.randrange(4) * 2**-52 for doc in docs[:9]}, docs[:9]) for _ in range(500)]
    block = judged_block(topics)
    assert ranking.ndcg(block, cutoffs(topics, None)).max() == 1.0


# Against the tools whose numbers people compare with. They know one gain a document, no groups and no repeats, and
# give 0 where nothing is relevant (dialect trec).


@pytest.fixture(scope="module")
def trec_topics() -> list[Topic]:
    rng = random.Random(8)
    pool = [f"d{i}" for i in range(60)]
    topics = []
    for _ in range(1500):
        gold = {doc: rng.choice(INTEGER_GAINS) for doc in rng.sample(pool, rng.randint(1, 40))}
        if max(gold.values()) < -1:  # pytrec_eval 0.5.11 dies of SIGSEGV on a topic with nothing above -2
            gold[next(iter(gold))] = -1
        topics.append(Topic(gold, rng.sample(pool, rng.randint(1, 60))))
    return topics


def qrels_and_run(topics: list[Topic]) -> tuple[dict, dict]:
    qrels = {str(i): {doc: int(gain) for doc, gain in topic.gold.items()} for i, topic in enumerate(topics)}
    run = {
        str(i): {doc: float(len(topic.retrieved) - place) for place, doc in enumerate(topic.retrieved)}
        for i, topic in enumerate(topics)
    }
    return qrels, run


@pytest.mark.parametrize("rel", [1, 2, 3])
def test_trec_eval_gives_the_same_numbers(trec_topics, rel):
    shared = ["P_5", "P_30", "recall_5", "recall_30", "success_1", "success_5", "map", "map_cut_10", "recip_rank"]
    shared += ["Rprec", "bpref", "set_P", "set_recall", "set_F"]
    shared += ["ndcg", "ndcg_cut_5", "ndcg_cut_30"] if rel == 1 else []
    qrels, run = qrels_and_run(trec_topics)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, _families(shared), relevance_level=rel).evaluate(run)
    assert len(theirs) == len(trec_topics)
    for spelling in shared:
        metric = parse(spelling)
        if rel > 1:
            metric = Metric(metric.name, (("rel", float(rel)),), metric.cutoff)
        ours = np.nan_to_num(measured(metric, trec_topics), nan=0.0)
        assert ours == pytest.approx([theirs[str(i)][spelling] for i in range(len(trec_topics))], abs=1e-9), spelling


def test_ir_measures_gives_the_same_numbers(trec_topics):
    spellings = ["nDCG@10", "nDCG", "R@10", "P@10", "P(rel=2)@5", "R(rel=3)@20", "AP", "AP(rel=2)@20", "RR", "RR@3"]
    spellings += ["Success@3", "Success(rel=2)@5", "Rprec(rel=2)", "Bpref", "Bpref(rel=2)", "SetP", "SetR", "SetF"]
    qrels, run = qrels_and_run(trec_topics)
    theirs = {spelling: {} for spelling in spellings}
    measures = {ir_measures.parse_measure(spelling): spelling for spelling in spellings}
    for found in ir_measures.iter_calc(list(measures), qrels, run):
        theirs[measures[found.measure]][found.query_id] = found.value
    for spelling in spellings:
        ours = np.nan_to_num(measured(parse(spelling), trec_topics), nan=0.0)
        assert ours == pytest.approx([theirs[spelling][str(i)] for i in range(len(trec_topics))], abs=1e-9), spelling


def test_ir_measures_judges_as_we_do_when_the_list_is_long_enough(trec_topics):
    # It divides by the list where that is shorter than k, and takes a negative gain for a judgement; we do neither.
    topics = [
        Topic({doc: abs(gain) for doc, gain in topic.gold.items()} | {"d0": 1}, topic.retrieved)
        for topic in trec_topics
        if len(topic.retrieved) >= 10
    ]
    qrels, run = qrels_and_run(topics)
    theirs = {found.query_id: found.value for found in ir_measures.iter_calc([ir_measures.Judged @ 10], qrels, run)}
    assert measured(parse("judged@10"), topics).tolist() == [theirs[str(i)] for i in range(len(topics))]


def _families(spellings: list[str]) -> set[str]:
    """pytrec_eval takes one cutoff family as `P_5,30`, given once."""
    families: dict[str, list[str]] = {}
    for spelling in spellings:
        stem, _, last = spelling.rpartition("_")
        if last.isdigit():
            families.setdefault(stem, []).append(last)
        else:
            families.setdefault(spelling, [])
    return {f"{stem}.{','.join(cuts)}" if cuts else stem for stem, cuts in families.items()}
