import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.dialects import DIALECTS, Dialect, UnknownDialect, find, require
from transforms.metrics.catalog import CATALOG, Metric, Param, UnknownMetric, describe, parse, parse_list
from transforms.metrics.judged import WHOLE

ALIASES = {
    # ir_measures
    "nDCG@10": "ndcg@10",
    "NDCG@10": "ndcg@10",
    "nDCG": "ndcg",
    "nDCG(dcg='exp-log2')@10": "ndcg(gain=exp2)@10",
    "nDCG(dcg='log2')@10": "ndcg@10",
    "R@100": "recall@100",
    "R(rel=2)@100": "recall(rel=2)@100",
    "P@5": "precision@5",
    "P(rel=2)@5": "precision(rel=2)@5",
    "Precision@5": "precision@5",
    "RR": "mrr",
    "RR@10": "mrr@10",
    "MRR@10": "mrr@10",
    "AP": "map",
    "AP(rel=2)@100": "map(rel=2)@100",
    "MAP": "map",
    "Success@5": "hit@5",
    "Rprec": "r_precision",
    "Bpref(rel=2)": "bpref(rel=2)",
    "RBP(p=0.5,rel=1)@5": "rbp(p=0.5,rel=1)@5",
    "Judged@10": "judged@10",
    "SetP": "precision",
    "SetR": "recall",
    "SetF": "f1",
    # trec_eval
    "ndcg_cut_10": "ndcg@10",
    "recall_100": "recall@100",
    "P_5": "precision@5",
    "success_5": "hit@5",
    "map_cut_10": "map@10",
    "recip_rank": "mrr",
    "set_P": "precision",
    "set_recall": "recall",
    "set_F": "f1",
    # MTEB
    "ndcg_at_10": "ndcg@10",
    "recall_at_100": "recall@100",
    "precision_at_5": "precision@5",
    "mrr_at_10": "mrr@10",
    "map_at_10": "map@10",
    "hit_rate_at_5": "hit@5",
    # eval-harness
    "retrieval-hit-at-k": "hit@k",
    "retrieval-recall-at-k": "recall@k",
    "retrieval-ndcg-at-k": "ndcg@k",
    "retrieval-mrr": "mrr",
    "answer-containment-at-k": "containment@k",
    # REMem
    "Recall@5": "recall@5",
    "Recall_all@5": "recall_all@5",
    "NDCG_any@5": "ndcg_any@5",
    # AutoRAG
    "retrieval_recall": "recall",
    "retrieval_precision": "precision",
    "retrieval_f1": "f1",
    "retrieval_ndcg": "ndcg",
    "retrieval_mrr": "mrr",
    "retrieval_map": "map",
}


def metrics() -> st.SearchStrategy[Metric]:
    """Any metric that the catalogue can express."""

    def of(name: str) -> st.SearchStrategy[Metric]:
        entry = CATALOG[name]
        cutoffs = st.none() | st.just("k") | st.integers(1, WHOLE - 1) if entry.takes_cutoff else st.none()
        chosen = st.tuples(*(st.none() | values(param) for param in entry.params))
        return st.builds(
            lambda read, cutoff: Metric(
                name,
                tuple(
                    (param.name, value)
                    for param, value in zip(entry.params, read, strict=True)
                    if value is not None and value != param.default
                ),
                cutoff,
            ),
            chosen,
            cutoffs,
        )

    return st.sampled_from(sorted(CATALOG)).flatmap(of)


def values(param: Param) -> st.SearchStrategy[str | float]:
    if param.choices:
        return st.sampled_from(param.choices)
    if isinstance(param.default, bool):
        return st.booleans()
    return st.floats(param.above, min(param.below, param.most, 1e300), exclude_min=True, exclude_max=True)


@given(metrics())
def test_names_round_trip(metric):
    assert parse(str(metric)) == metric
    assert str(parse(str(metric))) == str(metric)


@given(st.lists(metrics(), min_size=1))
def test_lists_of_names_round_trip(asked):
    assert parse_list(",".join(map(str, asked))) == tuple(dict.fromkeys(asked))


@given(st.text(max_size=30) | st.from_regex(r"[a-z_]{1,8}(\([a-z=,0-9]{0,8}\))?(@.{0,5})?", fullmatch=True))
def test_a_text_is_a_metric_or_a_one_line_error(text):
    try:
        metric = parse(text)
    except UnknownMetric as wrong:
        assert str(wrong).isprintable()
    else:
        assert parse(str(metric)) == metric


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_same_metric_under_its_own_name(alias, name):
    assert str(parse(alias)) == name
    assert parse(alias) == parse(name)


def test_no_spelling_means_two_metrics():
    spellings = [*CATALOG, *(alias for entry in CATALOG.values() for alias in entry.aliases)]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("name", CATALOG)
def test_every_alias_of_the_catalogue_parses(name):
    for alias in CATALOG[name].aliases:
        assert parse(alias.replace("<k>", "7")) == Metric(name, (), 7 if "<k>" in alias else None)


def test_default_parameters_are_left_out():
    assert str(parse("ndcg(gain=linear)@5")) == "ndcg@5"
    assert str(parse("rbp(p=0.80)")) == "rbp"
    assert parse("ndcg()@5") == Metric("ndcg", (), 5)


def test_parameters_come_in_the_catalogues_order():
    assert str(parse("rbp( rel = 2 , p=.5 ) @ 3")) == "rbp(p=0.5,rel=2)@3"


def test_a_boolean_parameter_is_written_in_lower_case():
    assert str(Metric("containment", (("case_sensitive", True),), "k")) == "containment(case_sensitive=true)@k"
    param = Param("case_sensitive", False, "whether case matters")
    assert (param.read("true"), param.read("false")) == (True, False)
    with pytest.raises(ValueError, match="true or false"):
        param.read("True")


def test_a_bare_cutoff_repeats_the_metric_before_it():
    asked = parse_list("hit@5, ndcg(gain=exp2)@5,10,k,rbp(p=0.5,rel=2)@3,ndcg_cut_5,100,mrr")
    assert [str(metric) for metric in asked] == [
        *("hit@5", "ndcg(gain=exp2)@5", "ndcg(gain=exp2)@10", "ndcg(gain=exp2)@k"),
        *("rbp(p=0.5,rel=2)@3", "ndcg@5", "ndcg@100", "mrr"),
    ]


def test_a_list_takes_texts_and_metrics_and_keeps_each_once():
    assert parse_list(["ndcg@5,10", "nDCG@5", Metric("mrr")]) == (
        Metric("ndcg", (), 5),
        Metric("ndcg", (), 10),
        Metric("mrr"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@10", r"unknown metric 'ndgc@10': did you mean 'ndcg'\?"),
        ("RECALL", r"did you mean 'recall'\?"),
        ("ndgc_cut_10", r"did you mean 'ndcg_cut_10'\?"),
        ("zzz", "known are hit, recall, recall_all"),
        ("ndcg@0", "cutoff is a whole number from 1"),
        ("ndcg_cut_0", "cutoff is a whole number from 1"),
        ("ndcg@-1", "cutoff is a whole number from 1"),
        ("ndcg@", "cutoff is a whole number from 1"),
        ("ndcg@5.5", "cutoff is a whole number from 1"),
        ("ndcg@five", "cutoff is a whole number from 1"),
        ("ndcg@٥", "cutoff is a whole number from 1"),
        ("ndcg@2147483647", "from 1 to 2147483646"),
        ("ndcg@" + "9" * 5000, "from 1 to 2147483646"),
        ("ndcg_cut_5@10", "cutoff stands twice"),
        ("bpref@5", "takes no cutoff"),
        ("ndcg(gian=exp2)", r"ndcg has no parameter 'gian': did you mean 'gain'\?"),
        ("judged(rel=1)", "it has none"),
        ("ndcg(gain=exp)", "gain must be linear or exp2"),
        ("recall(rel=0)", "rel must be a number above 0"),
        ("recall(rel=nan)", "rel must be a number above 0"),
        ("recall(rel=1e999)", "rel must be a number above 0"),
        ("rbp(p=1)", "p must be a number above 0 and below 1"),
        ("rbp(p=0.5,p=0.6)", "stands twice"),
        ("recall(match=fuzy)", "match must be id or fuzzy"),
        ("recall(threshold=101)", "threshold must be a number above 0, at most 100"),
        ("containment(case_sensitive=yes)", "case_sensitive must be true or false"),
        ("ndcg(exp2)", "not of the form param=value"),
        ("ndcg(gain=exp2", "not of the form"),
        ("", "not of the form"),
        ("ndcg\x1b[31m", "not of the form"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(text, message):
    with pytest.raises(UnknownMetric, match=message) as caught:
        parse(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["", " ", ",", "mrr,", "mrr,10", "5", "ndcg@5,0", "ndcg@5,-1", "ndcg@5,1x"])
def test_a_wrong_list_is_refused(text):
    with pytest.raises(UnknownMetric):
        parse_list(text)


@pytest.mark.parametrize("items", [[], [5], ["ndcg@5", "10"]])
def test_a_wrong_list_of_items_is_refused(items):
    with pytest.raises(UnknownMetric):
        parse_list(items)


def test_the_description_covers_the_catalogue():
    lines = describe()
    assert [line.name for line in lines] == list(CATALOG)
    assert all(line.meaning and line.formula and line.range and line.undefined for line in lines)
    usage = {line.name: line.usage for line in lines}
    assert (usage["ndcg"], usage["bpref"], usage["judged"]) == ("ndcg(gain)[@k]", "bpref(rel)", "judged[@k]")
    assert "gain: what a gain g adds: g, or 2^g - 1 (linear or exp2, default linear)" in lines[7].params


def test_dialects_are_found_by_name():
    assert find("trec") is DIALECTS["trec"]
    assert (find("standard").no_relevant, find("trec").no_relevant) == (None, 0.0)
    assert all(name == dialect.name for name, dialect in DIALECTS.items())


@pytest.mark.parametrize(
    ("name", "message"), [("trek", r"did you mean 'trec'\?"), ("\x00qqqq", "known are standard, trec")]
)
def test_an_unknown_dialect_gets_a_hint(name, message):
    with pytest.raises(UnknownDialect, match=message):
        find(name)


def test_a_dialect_refuses_the_metrics_it_does_not_have():
    small = Dialect("small", "two metrics only", None, ("hit", "mrr"))
    require(small, parse_list("hit@5,mrr"))
    with pytest.raises(UnknownDialect, match="dialect small has no bpref, ndcg; it has hit, mrr"):
        require(small, parse_list("ndcg@5,10,hit,bpref"))
