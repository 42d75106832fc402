"""The metrics: their names, and the one table of what each means.

A name is `name[(param=value,...)][@k]` and round-trips: `parse(str(m)) == m`. Other systems' spellings are aliases; an
alias only renames, it never changes a convention (that is a dialect's business).

To add a metric, write its function and its line in CATALOG. The command line, the docs table and the tests that hold
every metric against the oracle read the table.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace

from . import ranking
from .judged import WHOLE
from .metric import Cut, Description, Entry, Metric, Param, UnknownMetric, Value, as_text

__all__ = ["CATALOG", "Description", "Entry", "Metric", "Param", "UnknownMetric", "describe", "parse", "parse_list"]

_NAME = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]*)\s*(?:\((?P<params>[^()]*)\))?\s*(?:@(?P<cutoff>.*))?", re.DOTALL)
_CUTOFF = re.compile(r"k|[1-9][0-9]{0,9}")
_GLUED = re.compile(r"(?<=[_-])(k|[0-9]+)$")
"""The cutoff at the end of names such as ndcg_cut_10 and retrieval-hit-at-k."""


_REL = Param("rel", None, "smallest gain that counts as relevant; without it, any gain above 0 does", above=0.0)
_GAIN = Param("gain", "linear", "what a gain g adds: g, or 2^g - 1", choices=("linear", "exp2"))
_MATCH = Param(
    "match", "id", "what finds a gold document: its id, or a text much like it", choices=("id", "fuzzy"), judges=True
)
_THRESHOLD = Param(
    "threshold",
    90.0,
    "least likeness, by rapidfuzz's partial ratio, for match=fuzzy",
    above=0.0,
    most=100.0,
    judges=True,
)
_FUZZY = (_REL, _MATCH, _THRESHOLD)
_CASE = Param("case_sensitive", False, "whether upper and lower case differ", judges=True)
_P = Param("p", 0.8, "chance that the reader goes on to the next rank", above=0.0, below=1.0)

# In the formulas: R relevant documents in the gold, r@k of them in the first k ranks; rank i holds gain g_i and
# rel_i = 1 if it is relevant, else 0. Without a cutoff k is the list's length.
CATALOG: dict[str, Entry] = {
    "hit": Entry(
        ranking.hit,
        "1 if anything relevant is in the first k, else 0",
        "[r@k > 0]",
        _FUZZY,
        ("Success", "success_<k>", "hit_rate_at_<k>", "retrieval-hit-at-<k>"),
    ),
    "recall": Entry(
        ranking.recall,
        "share of the relevant documents, or groups, found in the first k",
        "r@k / R",
        _FUZZY,
        (
            *("R", "Recall", "SetR", "recall_<k>", "set_recall"),
            *("recall_at_<k>", "retrieval-recall-at-<k>", "retrieval_recall"),
        ),
    ),
    "recall_all": Entry(
        ranking.recall_all,
        "1 if all relevant documents, or one of every group, are in the first k, else 0",
        "[r@k = R]",
        _FUZZY,
        ("Recall_all",),
    ),
    "precision": Entry(
        ranking.precision,
        "share of the first k that is relevant; over the list's length without k",
        "r@k / k",
        _FUZZY,
        ("P", "Precision", "SetP", "P_<k>", "set_P", "precision_at_<k>", "retrieval_precision"),
    ),
    "f1": Entry(
        ranking.f1,
        "harmonic mean of precision and recall",
        "2 precision@k recall@k / (precision@k + recall@k)",
        _FUZZY,
        ("SetF", "set_F", "retrieval_f1"),
    ),
    "mrr": Entry(
        ranking.mrr,
        "one over the rank of the first relevant document; 0 if there is none in the first k",
        "1 / min{i <= k : rel_i}",
        _FUZZY,
        ("RR", "MRR", "recip_rank", "mrr_at_<k>", "retrieval-mrr", "retrieval_mrr"),
    ),
    "map": Entry(
        ranking.average_precision,
        "precision at each relevant rank, summed, over all relevant documents",
        "sum_{i<=k} rel_i (r@i / i) / R",
        (_REL,),
        ("AP", "MAP", "map_cut_<k>", "map_at_<k>", "retrieval_map"),
    ),
    "ndcg": Entry(
        ranking.ndcg,
        "gains discounted by rank, over those of the best possible ranking",
        "DCG@k / ideal DCG@k, DCG@k = sum_{i<=k} g_i / log2(i + 1)",
        (_GAIN,),
        ("nDCG", "NDCG", "ndcg_cut_<k>", "ndcg_at_<k>", "retrieval-ndcg-at-<k>", "retrieval_ndcg"),
    ),
    "ndcg_any": Entry(
        ranking.ndcg_any,
        "ndcg by whether an entry is relevant at all, not by how much",
        "DCG@k / ideal DCG@k, DCG@k = sum_{i<=k} rel_i / log2(i + 1), the ideal of R ones",
        _FUZZY,
        ("NDCG_any",),
    ),
    "r_precision": Entry(
        ranking.r_precision,
        "precision at rank R, the number of relevant documents",
        "r@R / R",
        (_REL,),
        ("Rprec", "RPrec"),
        takes_cutoff=False,
    ),
    "bpref": Entry(
        ranking.bpref,
        "how rarely judged non-relevant documents rank above relevant ones; the unjudged are passed over",
        "sum_{found} (1 - min(n above, R) / min(N, R)) / R, N judged non-relevant",
        (_REL,),
        ("Bpref", "BPref"),
        takes_cutoff=False,
    ),
    "rbp": Entry(
        ranking.rbp,
        "rank-biased precision: relevance met by a reader who goes on with chance p",
        "(1 - p) sum_{i<=k} rel_i p^(i - 1)",
        (_P, _REL),
        ("RBP",),
    ),
    "judged": Entry(
        ranking.judged_share,
        "share of the first k that the gold judges at all; over the list's length without k",
        "|{i <= k : g_i >= 0}| / k",
        aliases=("Judged",),
    ),
    "containment": Entry(
        ranking.hit,
        "1 if the text of any of the first k holds the expected answer, white space and case evened out, else 0",
        "[answer in text_i for some i <= k]",
        (_CASE,),
        ("answer-containment-at-<k>",),
        undefined="the sample has no answer and its gold is no text",
    ),
    "coverage": Entry(
        ranking.hit,
        "1 if anything relevant was retrieved, else 0: its mean is the share of samples served at all",
        "[r@k > 0]",
        _FUZZY,
    ),
}

# ir_measures chooses the gain by the form of its DCG.
_RENAMED_PARAMS = {("dcg", "log2"): ("gain", "linear"), ("dcg", "exp-log2"): ("gain", "exp2")}

_SPELLINGS = {name: name for name in CATALOG} | {alias: name for name, e in CATALOG.items() for alias in e.aliases}


def parse(text: str) -> Metric:
    """The metric that a text names, by its own name or an alias."""
    text = text.strip()
    match = _NAME.fullmatch(text)
    if match is None:
        raise UnknownMetric(f"metric {_quoted(text)}: not of the form name, name@k or name(param=value)@k")
    written, cutoff = match["name"], match["cutoff"]
    name, glued = _canonical(written)
    if name is None:
        raise UnknownMetric(f"unknown metric {_quoted(text)}: {_nearest(written)}")
    if glued is not None and cutoff is not None:
        raise UnknownMetric(f"metric {_quoted(text)}: the cutoff stands twice, in {written} and after @")
    try:
        params = _params(name, match["params"])
        return Metric(name, params, _cutoff(name, cutoff if glued is None else glued))
    except ValueError as wrong:
        raise UnknownMetric(f"metric {_quoted(text)}: {wrong}") from None


def parse_list(metrics: str | Iterable[str | Metric]) -> tuple[Metric, ...]:
    """Metrics in the order asked, each once.

    A bare cutoff repeats the metric before it: ndcg@5,10 is ndcg@5,ndcg@10.
    """
    found: dict[Metric, None] = {}
    for item in [metrics] if isinstance(metrics, str) else metrics:
        if isinstance(item, Metric):
            found[item] = None
            continue
        if not isinstance(item, str):
            raise UnknownMetric(f"metric {_quoted(item)}: a metric is written as text, such as ndcg@10")
        last: Metric | None = None
        for piece in _pieces(item):
            if re.fullmatch(r"[+-]?[0-9].*|k", piece) is None:
                last = parse(piece)
            elif last is None or last.cutoff is None:
                raise UnknownMetric(f"metric {_quoted(item)}: the cutoff {piece} follows no metric with a cutoff")
            else:
                last = parse(f"{replace(last, cutoff=None)}@{piece}")
            found[last] = None
    if not found:
        raise UnknownMetric("no metric asked: name at least one, such as ndcg@10")
    return tuple(found)


def describe() -> tuple[Description, ...]:
    """The whole catalogue as text, for whoever prints it."""
    return tuple(
        Description(
            name=name,
            usage=name
            + (f"({','.join(param.name for param in entry.params)})" if entry.params else "")
            + ("[@k]" if entry.takes_cutoff else ""),
            meaning=entry.meaning,
            formula=entry.formula,
            range=entry.range,
            undefined=entry.undefined,
            params=tuple(_described(param) for param in entry.params),
            aliases=entry.aliases,
        )
        for name, entry in CATALOG.items()
    )


def _pieces(text: str) -> list[str]:
    """Split at the commas outside parentheses; empty text is no piece, an empty place between commas is one."""
    return [piece.strip() for piece in re.split(r",(?![^()]*\))", text)] if text.strip() else []


def _canonical(written: str) -> tuple[str | None, str | None]:
    """The catalogue's name for a written one, and the cutoff if it is glued to it."""
    if written in _SPELLINGS:
        return _SPELLINGS[written], None
    glued = _GLUED.search(written)
    return (_SPELLINGS.get(_GLUED.sub("<k>", written)), glued[1]) if glued else (None, None)


def _params(name: str, text: str | None) -> tuple[tuple[str, Value], ...]:
    known = {param.name: param for param in CATALOG[name].params}
    read: dict[str, Value] = {}
    for piece in _pieces(text or ""):
        word, equals, value = (part.strip() for part in piece.partition("="))
        if not equals:
            raise ValueError(f"{_quoted(piece)} in the parentheses is not of the form param=value")
        word, value = _RENAMED_PARAMS.get((word, value.strip("'\"")), (word, value.strip("'\"")))
        if word not in known:
            close = difflib.get_close_matches(word, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known) or 'none'}"
            raise ValueError(f"{name} has no parameter {_quoted(word)}: {hint}")
        if word in read:
            raise ValueError(f"the parameter {word} stands twice")
        read[word] = known[word].read(value)
    return tuple((word, read[word]) for word, param in known.items() if word in read and read[word] != param.default)


def _cutoff(name: str, text: str | None) -> Cut:
    if text is None:
        return None
    if not CATALOG[name].takes_cutoff:
        raise ValueError(f"{name} sets its own depth and takes no cutoff")
    text = text.strip()
    if text == "k":
        return "k"
    if _CUTOFF.fullmatch(text) is None or int(text) >= WHOLE:
        raise ValueError(f"a cutoff is a whole number from 1 to {WHOLE - 1}, or k")
    return int(text)


def _nearest(written: str) -> str:
    """A hint at the closest known spelling, whatever its case; else the names there are."""
    glued = _GLUED.search(written)
    by_lower = {spelling.lower(): spelling for spelling in reversed(_SPELLINGS)}  # reversed: own names win over aliases
    close = difflib.get_close_matches(_GLUED.sub("<k>", written).lower(), by_lower, 1)
    if not close:
        return f"known are {', '.join(CATALOG)}"
    return f"did you mean {by_lower[close[0]].replace('<k>', glued[1] if glued else 'k')!r}?"


def _described(param: Param) -> str:
    default = "" if param.default is None else f", default {as_text(param.default)}"
    return f"{param.name}: {param.meaning} ({param.allowed}{default})"


def _quoted(text: object) -> str:
    """What was written, on one line, without control characters, not too long."""
    shown = repr(text)
    return shown if len(shown) <= 80 else shown[:76] + "...'"
