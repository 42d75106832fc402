"""A system under test cannot raise a pooled score except by ranking better.

A trial is a few samples with outputs, and the same samples with those outputs manipulated: left out, turned into
errors, spoilt, contradicted, their ids repeated, their lists padded with what is not relevant. Each of the two is a
slice of one evaluation, so that hundreds of trials cost one call. No mean may rise, and no denominator may move, in any
bit. And wherever a mean is shown, what it is a mean of stands beside it.
"""

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.cli import main
from pipeline.commit import open_run
from transforms.metrics.catalog import CATALOG

TRIALS = 300  # two slices each: under the 1,000 values of a field that have rows of their own
WORDS = ["harbour", "lantern", "glacier", "meadow", "compass", "orchard"]
UNWANTED = ["zz-1", "zz-2", "zz-3", 901, 902, {"id": "zz-4", "text": "nothing of use"}, {"id": "zz-5", "score": 9e9}]
# A setting, not its default, for every parameter of the catalogue.
SETTINGS = {"rel": "2", "gain": "exp2", "match": "fuzzy", "threshold": "97.5", "case_sensitive": "true", "p": "0.5"}
# The standard meaning lets these rise, for a reason; README, "Security", names them.
EXCEPTIONS = {"judged": "it asks how much of a list was judged at all: padding with judged documents is what it counts"}

Output = dict[str, Any]
Entries = list[Any]


def metrics() -> list[str]:
    """Every metric of the catalogue bare and cut, each of its parameters set."""
    found = []
    for name, entry in CATALOG.items():
        forms = [name, *(f"{name}({_setting(param.name)})" for param in entry.params)]
        found += [form + cut for form in forms for cut in ("", "@1", "@3", "@k") if entry.takes_cutoff or not cut]
    return found


def _setting(param: str) -> str:
    return f"match=fuzzy,threshold={SETTINGS[param]}" if param == "threshold" else f"{param}={SETTINGS[param]}"


def gold(rng: random.Random) -> Any:
    words = rng.sample(WORDS, rng.randint(0, len(WORDS)))
    kind = rng.random()
    if kind < 0.6:
        return {word: rng.choice([-1, 0, 0, 0.5, 1, 2, 3]) for word in words}
    if kind < 0.8:
        return words
    return [words[:2], words[2:4]] if len(words) > 3 else [words]


def doc(entry: Any) -> Any:
    return entry["id"] if isinstance(entry, dict) else entry


def ranking(rng: random.Random) -> Entries:
    words = rng.sample([*WORDS, "fern", "quartz"], rng.randint(0, 7))
    return [word if rng.random() < 0.7 else {"id": word, "text": rng.choice(["in Paris", word])} for word in words]


def unjudged(rng: random.Random, wanted: Any, listed: Entries) -> Entries:
    """Entries that the gold does not name, put anywhere."""
    return padded(rng, listed, UNWANTED)


def judged(rng: random.Random, wanted: Any, listed: Entries) -> Entries:
    """Documents that the gold names as not relevant (or, below 0, as not judged), put anywhere."""
    known = wanted if isinstance(wanted, dict) else {}
    return padded(rng, listed, [word for word, gain in known.items() if gain <= 0])


def padded(rng: random.Random, listed: Entries, unwanted: Entries) -> Entries:
    taken = {str(doc(entry)) for entry in listed}
    more = [entry for entry in unwanted if str(doc(entry)) not in taken]
    longer, front = list(listed), rng.random() < 0.3
    for entry in rng.sample(more, rng.randint(0, len(more))):
        longer.insert(0 if front else rng.randint(0, len(longer)), entry)
    return longer


def repeated(rng: random.Random, wanted: Any, listed: Entries) -> Entries:
    """Ids of the list again, further down (further up would be another ranking), with the answer for a text."""
    longer = list(listed)
    for _ in range(rng.randint(0, 4) if listed else 0):
        at = rng.randrange(len(longer))
        again = longer[at] if rng.random() < 0.5 else {"id": doc(longer[at]), "text": "in Paris"}
        longer.insert(rng.randint(at + 1, len(longer)), again)
    return longer


LISTS: list[Callable[[random.Random, Any, Entries], Entries]] = [unjudged, judged, repeated]


def unusable(rng: random.Random, sample_id: str, listed: Entries) -> list[Output]:
    """Every way not to answer."""
    said: Output = {"id": sample_id, "retrieved": listed}
    return rng.choice(
        [
            [],
            [{"id": sample_id, "error": "timeout"}],
            [said | {"error": "timeout"}],
            [{"id": sample_id, "retrieved": rng.choice([None, 7, "not json", "{", {"a": 1}])}],
            [{"id": sample_id, "retrieved": [*listed, rng.choice([None, [], {}, {"id": ""}, 1.5, True])]}],
            [{"id": sample_id, "retrieved": [*listed, {"id": "zz-9", "score": float("nan")}]}],
            [said, {"id": sample_id, "retrieved": [*listed, "zz-8"]}],
            [said, said, {"id": sample_id, "error": "late"}],
            [said, {"id": sample_id, "retrieved": "not json"}],
        ]
    )


class Trials:
    """Both sides of many trials: slice `<n>-before` and slice `<n>-after`."""

    def __init__(self, seed: int, trials: int) -> None:
        self.rng = random.Random(seed)
        self.samples: list[dict[str, Any]] = []
        self.outputs: list[Output] = []
        self.silent: dict[int, int] = {}
        """Trial → how many samples its manipulation left without a usable output."""
        self.with_judged: set[int] = set()
        for trial in range(trials):
            self._add(trial)

    def _add(self, trial: int) -> None:
        rng = self.rng
        kinds = rng.sample(LISTS, rng.randint(0, len(LISTS)))
        share = rng.choice([0.0, 0.3, 1.0]) if kinds else rng.choice([0.3, 1.0])
        self.silent[trial] = 0
        if judged in kinds:
            self.with_judged.add(trial)
        for number in range(rng.randint(1, 4)):
            wanted, listed = gold(rng), ranking(rng)
            answer = {"answer": "paris"} if rng.random() < 0.7 else {}
            k = rng.randint(1, 5)
            ids = {when: f"{trial}-{number}-{when}" for when in ("before", "after")}
            for when, sample_id in ids.items():
                metadata = {"trial": f"{trial}-{when}", "k": k}
                self.samples.append({"id": sample_id, "expected_output": wanted, "metadata": metadata} | answer)
            self.outputs.append({"id": ids["before"], "retrieved": listed})
            for change in kinds:
                listed = change(rng, wanted, listed)
            if rng.random() < share:
                self.silent[trial] += 1
                self.outputs += unusable(rng, ids["after"], listed)
            else:
                self.outputs += [{"id": ids["after"], "retrieved": listed}] * rng.choice([1, 1, 3])
        self.outputs.append({"id": f"{trial}-of-no-sample", "retrieved": WORDS})


def pooled(trials: Trials, **asked: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """(trial and side, metric) → the row of the summary."""
    trials.rng.shuffle(trials.outputs)
    found = pipeline.evaluate(trials.samples, trials.outputs, metrics(), slice_by="trial", **asked)
    assert found.ledger["balanced"]
    return {(row["slice_value"], row["metric"]): row for row in found.summary.to_pylist() if row["slice"] == "trial"}


def gains_of(trials: Trials, **asked: Any) -> list[str]:
    """What a manipulation won or hid, in words; nothing, if the scoring is honest."""
    rows, wrong = pooled(trials, **asked), []
    for (side, metric), before in rows.items():
        trial, _, when = side.partition("-")
        if when == "after":
            continue
        after = rows[f"{trial}-after", metric]
        excused = metric.partition("@")[0] in EXCEPTIONS and int(trial) in trials.with_judged
        rises = before["mean"] is not None and after["mean"] is not None and after["mean"] > before["mean"]
        if rises and not excused:
            wrong.append(f"trial {trial}: {metric} rose from {before['mean']!r} to {after['mean']!r}")
        for term in ("count", "expected", "undefined"):
            if before[term] != after[term]:
                wrong.append(f"trial {trial}: {metric}: {term} went from {before[term]} to {after[term]}")
        if before["missing"] or after["missing"] != trials.silent[int(trial)]:
            wrong.append(f"trial {trial}: {metric}: {after['missing']} missing, not {trials.silent[int(trial)]}")
    return wrong


def test_every_parameter_of_the_catalogue_is_tried() -> None:
    assert set(SETTINGS) == {param.name for entry in CATALOG.values() for param in entry.params}


def test_no_manipulation_raises_a_score() -> None:
    assert gains_of(Trials(seed=1, trials=60)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "seed"), [*(("standard", seed) for seed in range(2, 7)), ("trec", 7), ("trec", 8)])
def test_no_manipulation_of_thousands_raises_a_score(dialect: str, seed: int) -> None:
    assert gains_of(Trials(seed, TRIALS), dialect=dialect)[:5] == []


def test_the_search_finds_what_skipping_would_win() -> None:
    """--missing skip is the user's own choice; what it lets a silent system win shows in count and answered."""
    trials = Trials(seed=1, trials=60)
    assert any("rose" in line for line in gains_of(trials, missing="skip"))
    rows = pooled(trials, missing="skip")
    skipped = [row for (side, _), row in rows.items() if side.endswith("after") and row["missing"]]
    assert skipped and all(row["answered"] == (row["expected"] - row["missing"]) / row["expected"] for row in skipped)


def mean(metric: str, wanted: Any, listed: Entries) -> float:
    summary = pipeline.evaluate([{"id": "q", "expected_output": wanted}], [{"id": "q", "retrieved": listed}], metric)
    (value,) = summary.summary["mean"].to_pylist()
    return value


def test_the_exceptions_are_real() -> None:
    assert mean("judged@3", {"a": 1, "b": 0}, ["a"]) < mean("judged@3", {"a": 1, "b": 0}, ["a", "b"])
    # Not padding but its opposite: a share of the list's length, unlike one of k, rises when the list is cut.
    for name in ("precision", "f1"):
        assert mean(name, ["a"], ["a", "x"]) < mean(name, ["a"], ["a"])
        assert mean(f"{name}@2", ["a"], ["a", "x"]) == mean(f"{name}@2", ["a"], ["a"])


SAMPLES = [{"id": str(n), "expected_output": [] if n == 0 else ["a"]} for n in range(8)]
OUTPUTS = [{"id": "0", "retrieved": ["a"]}, {"id": "1", "retrieved": ["a"]}, {"id": "2", "error": "timeout"}]
BESIDE = {"mean": 1 / 7, "count": 7, "expected": 8, "missing": 6, "undefined": 1, "answered": 0.25}


def shown_rows(format: str, text: str) -> list[dict[str, str]]:
    """The rows of what was printed, by its own headings."""
    if format == "json":
        return [{name: str(cell) for name, cell in row.items()} for row in json.loads(text)["summary"]]
    lines = text.split("\n\n")[0].splitlines()
    if format == "csv":
        return list(csv.DictReader(lines))
    edges = [match.span() for match in re.finditer("-+", lines[1])] if format == "table" else []
    cells = [
        [line[start:stop].strip() for start, stop in edges] if edges else [cell.strip() for cell in line.split("|")]
        for line in (lines[0], *lines[2:])
    ]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def as_number(cell: str) -> float:
    return float(cell.rstrip("%")) / 100 if cell.endswith("%") else float(cell)


def test_no_mean_is_shown_without_what_it_is_a_mean_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, records in (("samples", SAMPLES), ("outputs", OUTPUTS)):
        (tmp_path / f"{side}.jsonl").write_text("\n".join(map(json.dumps, records)))
    sides = [word for side in ("samples", "outputs") for word in (f"--{side}", str(tmp_path / f"{side}.jsonl"))]
    assert main(["run", *sides, "--out", str(tmp_path / "runs"), "--metrics", "hit@5,ndcg@5"]) == 0
    printed = [("table", capsys.readouterr().out)]
    for format in ("table", "md", "csv", "json"):
        assert main(["show", str(tmp_path / "runs"), "--format", format]) == 0
        printed.append((format, capsys.readouterr().out))
    stored = open_run(str(tmp_path / "runs")).summary().to_pylist()
    for rows in (
        [{name: str(cell) for name, cell in row.items()} for row in stored],
        *(shown_rows(*p) for p in printed),
    ):
        assert [row["metric"] for row in rows] == ["hit@5", "ndcg@5"]
        for row in rows:
            assert {name: as_number(row[name]) for name in BESIDE} == pytest.approx(BESIDE, abs=5e-5)
