"""Random inputs with known answers: clean ones, and dirty ones that say what must become of every record."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LANGS = ["de", "en", "fr", None]
TAGS = ["api", "billing", "login", "search"]


def random_samples(rng: random.Random, n: int) -> list[dict[str, Any]]:
    """Samples of every gold shape, with slices and cutoffs of their own."""
    samples = []
    for i in range(n):
        docs = rng.sample([f"doc-{d}" for d in range(60)], rng.randint(0, 8))
        shape = rng.randrange(4)
        gold: Any = docs
        if shape == 1:
            gold = {doc: rng.choice([0, 1, 2, 3, 0.5, -1]) for doc in docs}
        elif shape == 2:
            cut = rng.randint(0, len(docs))
            gold = [group for group in (docs[:cut], docs[cut:], docs[:1]) if group]
        elif shape == 3:
            gold = json.dumps(docs)
        metadata: dict[str, Any] = {"lang": rng.choice(LANGS), "tags": rng.sample(TAGS, rng.randint(0, 3))}
        if rng.random() < 0.3:
            metadata["k"] = rng.randint(1, 12)
        samples.append({"id": f"q-{i}", "expected_output": gold, "metadata": metadata})
    return samples


def random_outputs(rng: random.Random, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs in every shape; some missing, some without a sample, some with repeats, some failed."""
    outputs: list[dict[str, Any]] = []
    for sample in samples:
        if rng.random() < 0.05:
            continue
        docs = [f"doc-{rng.randrange(60)}" for _ in range(rng.randint(0, 25))]
        entries: list[Any] = list(docs)
        if rng.random() < 0.5:
            entries = [{"id": doc, "text": f"text of {doc}", "score": 1.0 / (r + 1)} for r, doc in enumerate(docs)]
        body: Any = rng.choice([entries, {"retrieved": entries}, json.dumps(entries)])
        outputs.append({"id": sample["id"], rng.choice(["actual_output", "actualOutput"]): body})
        if rng.random() < 0.02:
            outputs[-1]["error"] = "timeout"
    outputs += [{"id": f"stray-{i}", "actual_output": ["doc-1"]} for i in range(len(samples) // 20)]
    rng.shuffle(outputs)
    return outputs


def write_jsonl(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@dataclass
class Dirty:
    """Two JSONL files' worth of lines, and what the ledger must say of them."""

    samples: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    ledger: dict[str, Counter[str]] = field(default_factory=lambda: {"samples": Counter(), "outputs": Counter()})
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(location, code) of every record that must be named in `rejected`."""

    def write(self, folder: Path) -> tuple[Path, Path]:
        paths = folder / "samples.jsonl", folder / "outputs.jsonl"
        for path, lines in zip(paths, (self.samples, self.outputs), strict=True):
            path.write_bytes(b"\n".join(lines) + b"\n")
        return paths


_NO_ID = [
    (b'{"id": "q-1", "expected_output": [', "bad_json"),
    (b"[1, 2]", "bad_json"),
    (b'{"id": "caf\xe9"}', "bad_utf8"),
    (b'{"expected_output": ["a"], "actual_output": ["a"]}', "missing_id"),
    (b'{"id": "  ", "actual_output": ["a"], "expected_output": ["a"]}', "missing_id"),
    (b'{"id": "a\\u0007b", "actual_output": ["a"], "expected_output": ["a"]}', "bad_id"),
    (b'{"id": true, "actual_output": ["a"], "expected_output": ["a"]}', "bad_id"),
    (b'{"id": "' + b"x" * 513 + b'", "actual_output": ["a"], "expected_output": ["a"]}', "bad_id"),
]


def dirty(rng: random.Random, n: int) -> Dirty:
    """About n ids, each given one fate on each side; the lines are shuffled, the fates are known."""
    made = Dirty()
    lines: dict[str, list[tuple[bytes, str | None]]] = {"samples": [], "outputs": []}
    count = made.ledger

    def add(side: str, record: Any, code: str | None = None) -> None:
        line = record if isinstance(record, bytes) else json.dumps(record).encode()  # json writes NaN as it is
        lines[side].append((line, code))
        count[side]["read"] += 1
        if code is not None:
            count[side]["rejected"] += 1

    for i in range(n):
        sample_id = f"q-{i}"
        gold = rng.choice([["a", "b"], {"a": 2, "c": 0}, [["a"], ["b", "c"]], [], "plain text"])
        good = {"id": sample_id, "expected_output": gold}
        sample_fate = rng.choice(["good"] * 6 + ["absent", "twice", "conflict", "bad"])
        if sample_fate in ("good", "twice"):
            add("samples", good)
        if sample_fate == "twice":
            add("samples", {"expected_output": gold, "id": sample_id, "unknown": 1})
            count["samples"]["duplicate"] += 1
        elif sample_fate == "conflict":
            add("samples", good, "conflict")
            add("samples", {**good, "metadata": {"k": 3}}, "conflict")
        elif sample_fate == "bad":
            bad = rng.choice([7, True, [["a"], "b"], {"a": "high"}, [1.5], [""]])
            add("samples", {"id": sample_id, "expected_output": bad}, "bad_gold")
        known = sample_fate in ("good", "twice")

        ranked = {"id": sample_id, "actual_output": {"retrieved": ["x", "a", "b"]}}
        fate = rng.choice(["good"] * 6 + ["absent", "twice", "conflict", "bad", "error", "nan", "half"])
        if fate in ("good", "twice"):
            add("outputs", ranked)
        if fate == "twice":
            add("outputs", ranked)
            count["outputs"]["duplicate"] += 1
        elif fate == "conflict":
            add("outputs", ranked, "conflict")
            add("outputs", {"id": sample_id, "actual_output": ["a"]}, "conflict")
        elif fate == "bad":
            bad = rng.choice(["not json", 7, {"retrieved": 42}, [{"text": "no id"}], [None], {"hits": []}])
            add("outputs", {"id": sample_id, "actual_output": bad}, "bad_output")
        elif fate == "error":
            add("outputs", {"id": sample_id, "error": "timeout"})
        elif fate == "nan":
            add(
                "outputs",
                f'{{"id": "{sample_id}", "actual_output": [{{"id": "a", "score": NaN}}]}}'.encode(),
                "non_finite",
            )
        elif fate == "half":
            add("outputs", ranked, "conflict")
            add("outputs", {"id": sample_id, "actual_output": 7}, "bad_output")
        usable = fate in ("good", "twice", "error")
        if usable:
            count["outputs"]["matched" if known else "unmatched"] += 1
        if known:
            count["samples"]["joined" if usable else "missing"] += 1

    for side in lines:
        for line, code in rng.sample(_NO_ID, rng.randint(0, len(_NO_ID))):
            add(side, line, code)
        rng.shuffle(lines[side])
        kept: list[bytes] = []
        for line, code in lines[side]:
            if rng.random() < 0.1:
                kept.append(rng.choice([b"", b"   ", b"\r"]))
            kept.append(line)
            if code is not None:
                made.rejected[f"{side}.jsonl:{len(kept)}", code] += 1
        setattr(made, side, kept)
    return made
