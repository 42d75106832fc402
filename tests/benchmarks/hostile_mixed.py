"""A dirty set with a known answer: every id has one fate, and its fate says what must become of each of its lines."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LINE_BYTES = 4096
"""The run's limit on a line, so that lines over it need not fill a disk."""
PLAN = f"[limits]\nline_bytes = {LINE_BYTES}\n"
METRICS = 4
"""How many the default metrics are: rows a scored sample."""

_SHARE = 200  # one in so many, 0.5 %, has each fate but the first
_SAMPLE = b'{"id": "q-#", "expected_output": ["a-#", "b"]}'
_OUTPUT = b'{"id": "q-#", "actual_output": ["x", "a-#", "b"]}'
_GOOD_SAMPLE, _GOOD_OUTPUT = (_SAMPLE, "joined"), (_OUTPUT, "matched")
_MISSING, _UNMATCHED = (_SAMPLE, "missing"), (_OUTPUT, "unmatched")
_DEEP = b"[" * 70 + b"]" * 70

# A line, and its word in the ledger; a word that the ledger has no term for is the code that it is rejected with.
Line = tuple[bytes, str]


@dataclass(frozen=True)
class Fate:
    """The lines of one id on both sides, and the status of its metric rows; None: it has none."""

    samples: tuple[Line, ...]
    outputs: tuple[Line, ...]
    status: str | None = "scored"


def _no_sample(line: bytes, code: str) -> Fate:
    return Fate(((line, code),), (_UNMATCHED,), None)


def _no_output(line: bytes, code: str, status: str = "bad_output") -> Fate:
    return Fate((_MISSING,), ((line, code),), status)


def _flawed(line: bytes) -> dict[str, bytes]:
    """What can be wrong with a line of either side, and makes it unknown whose line it is."""
    return {
        "bad_utf8": line.replace(b'"b"', b'"caf\xe9"'),
        "bad_json": line[:-1],
        "too_large": line.replace(b'"b"', b'"' + b"b" * LINE_BYTES + b'"'),
        "missing_id": line.replace(b'"id": "q-#"', b'"name": "q-#"'),
        "bad_id": line.replace(b"q-#", b"q-#\\u0007"),
    }


FATES = {
    "good": Fate((_GOOD_SAMPLE,), (_GOOD_OUTPUT,)),
    **{f"sample {code}": _no_sample(line, code) for code, line in _flawed(_SAMPLE).items()},
    **{f"output {code}": _no_output(line, code, "missing_output") for code, line in _flawed(_OUTPUT).items()},
    "sample blank id": _no_sample(_SAMPLE.replace(b"q-#", b"  "), "missing_id"),
    "output too long an id": _no_output(_OUTPUT.replace(b"q-#", b"q-#" + b"x" * 513), "bad_id", "missing_output"),
    "sample non_finite gain": _no_sample(b'{"id": "q-#", "expected_output": {"a-#": NaN}}', "non_finite"),
    "sample gain past floats": _no_sample(b'{"id": "q-#", "expected_output": {"a-#": 1e999}}', "non_finite"),
    "sample too_deep": _no_sample(b'{"id": "q-#", "expected_output": ["b"], "input": %b}' % _DEEP, "too_deep"),
    "sample bad_gold": _no_sample(b'{"id": "q-#", "expected_output": 7}', "bad_gold"),
    "sample blank gold": _no_sample(b'{"id": "q-#", "expected_output": [""]}', "bad_gold"),
    "output non_finite score": _no_output(b'{"id": "q-#", "actual_output": [{"id": "b", "score": NaN}]}', "non_finite"),
    "output too_deep": _no_output(b'{"id": "q-#", "actual_output": ["b"], "answer": %b}' % _DEEP, "too_deep"),
    "output bad_output": _no_output(b'{"id": "q-#", "actual_output": "not json"}', "bad_output"),
    "output null entry": _no_output(b'{"id": "q-#", "actual_output": ["b", null]}', "bad_output"),
    "sample twice": Fate((_GOOD_SAMPLE, (_SAMPLE, "duplicate")), (_GOOD_OUTPUT,)),
    "output twice": Fate((_GOOD_SAMPLE,), (_GOOD_OUTPUT, (_OUTPUT.replace(b", ", b","), "duplicate"))),
    "sample conflict": Fate(
        ((_SAMPLE, "conflict"), (_SAMPLE.replace(b'"b"', b'"c"'), "conflict")), (_UNMATCHED,), None
    ),
    "output conflict": Fate(
        (_MISSING,), ((_OUTPUT, "conflict"), (_OUTPUT.replace(b'"b"', b'"c"'), "conflict")), "conflict"
    ),
    "output conflict with a bad one": Fate(
        (_MISSING,), ((_OUTPUT, "conflict"), (b'{"id": "q-#", "actual_output": 7}', "bad_output")), "conflict"
    ),
    "no output": Fate((_MISSING,), (), "missing_output"),
    "no sample": Fate((), (_UNMATCHED,), None),
    "error": Fate((_GOOD_SAMPLE,), ((b'{"id": "q-#", "error": "timeout"}', "matched"),), "error"),
    "empty list": Fate((_GOOD_SAMPLE,), ((b'{"id": "q-#", "actual_output": []}', "matched"),)),
    "repeats in a list": Fate((_GOOD_SAMPLE,), ((_OUTPUT.replace(b'"x"', b'"b", "b"'), "matched"),)),
    "empty gold": Fate(((b'{"id": "q-#", "expected_output": []}', "joined"),), (_GOOD_OUTPUT,), "no_relevant"),
    "negative gain": Fate(((b'{"id": "q-#", "expected_output": {"a-#": 1, "b": -1}}', "joined"),), (_GOOD_OUTPUT,)),
    "nothing but negative gains": Fate(
        ((b'{"id": "q-#", "expected_output": {"b": -1}}', "joined"),), (_GOOD_OUTPUT,), "no_relevant"
    ),
}

_TERMS = {
    "samples": ("joined", "missing", "rejected", "duplicate"),
    "outputs": ("matched", "unmatched", "rejected", "duplicate"),
}


@dataclass
class Known:
    """What the run must say."""

    ledger: dict[str, Counter[str]] = field(default_factory=lambda: {side: Counter() for side in _TERMS})
    rejected: dict[str, Counter[str]] = field(default_factory=lambda: {side: Counter() for side in _TERMS})
    statuses: Counter[str] = field(default_factory=Counter)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(file:line, code) of every rejected record."""


def write(folder: Path, ids: int, seed: int, shards: int = 4) -> Known:
    """The files `samples-*.jsonl`, `outputs-*.jsonl` and `plan.toml`, and what is known of them."""
    rng = random.Random(seed)
    faults = [name for name in FATES if name != "good"]
    fates = [name for name in faults for _ in range(max(1, ids // _SHARE))]
    fates += ["good"] * (ids - len(fates))
    rng.shuffle(fates)
    known = Known()
    known.statuses.update({status: 0 for status in ("scored", "error")})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(PLAN)
    for side in _TERMS:
        lines = list(_lines(side, fates))
        rng.shuffle(lines)
        for shard in range(shards):
            name = f"{side}-{shard}.jsonl"
            _write(folder / name, lines[shard::shards], known, side, rng)
    for name, count in Counter(fates).items():
        status = FATES[name].status
        if status is not None:
            known.statuses[status] += count * METRICS
    return known


def _lines(side: str, fates: list[str]) -> Iterator[Line]:
    for number, fate in enumerate(fates):
        for line, word in getattr(FATES[fate], side):
            yield line.replace(b"#", b"%d" % number), word


def _write(path: Path, lines: list[Line], known: Known, side: str, rng: random.Random) -> None:
    """One shard. Blank lines and CRLF here and there: they are tolerated, and they count as lines."""
    at = 0
    with path.open("wb") as file:
        for line, word in lines:
            at += 1
            if rng.random() < 0.01:
                file.write(rng.choice([b"\n", b"  \n", b"\r\n"]))
                at += 1
            file.write(line + (b"\r\n" if rng.random() < 0.01 else b"\n"))
            known.ledger[side]["read"] += 1
            if word in _TERMS[side]:
                known.ledger[side][word] += 1
            else:
                known.ledger[side]["rejected"] += 1
                known.rejected[side][word] += 1
                known.places[f"{path.name}:{at}", word] += 1


def differences(known: Known, ledger: dict, places: Counter[tuple[str, str]]) -> list[str]:
    """Every count and place of a committed run that is not what it must be."""
    wrong = []
    for side, terms in _TERMS.items():
        for word in ("read", *terms):
            if ledger[side][word] != known.ledger[side][word]:
                wrong.append(f"{side}: {ledger[side][word]} {word}, not {known.ledger[side][word]}")
        if Counter(ledger["rejected"][side]) != known.rejected[side]:
            wrong.append(f"{side} rejected: {ledger['rejected'][side]}, not {dict(known.rejected[side])}")
    if +Counter(ledger["metric_rows"]["by_status"]) != +known.statuses:
        wrong.append(f"statuses: {ledger['metric_rows']['by_status']}, not {dict(known.statuses)}")
    astray = (places - known.places) + (known.places - places)
    if astray:
        wrong.append(f"{astray.total()} places, such as {next(iter(astray))}")
    return wrong
