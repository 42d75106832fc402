"""Shards of mutated records, run as a real job, and held line by line against the reference."""

import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import job
from pipeline.plan import make_plan
from transforms.dialects import DIALECTS

from .datasets import random_outputs, random_samples
from .fuzz_mutate import mutate_line
from .fuzz_reference import Fate, decide, read_lines

SEED = 20261118
LINE_BYTES = 30_000
EDGE_SAMPLES: list[dict[str, Any]] = [
    {"expected_output": {"doc-1": 3, "doc-2": 0, "doc-3": -1, "doc-é": 0.5}, "answer": "Die Antwort: é 日本 😀"},
    {"expected_output": [["doc-1", "doc-2"], ["doc-3"]], "input": {"question": "what?\n\tnow"}},
    {"expected_output": "the expected answer span", "metadata": {"k": 3, "lang": "de", "tags": ["a", 1, None]}},
    {
        "expected_output": '{"doc-1": 2, "doc-2": "1"}',
        "metadata": '{"k": 2, "lang": ["x", "y"]}',
        "unknown": [1, {"a": None}],
    },
    {"answer": "only an answer", "input": [1, 2.5, None, True, "x"]},
    {"expected_output": [1, 2, "doc-3"], "metadata": None},
]
EDGE_OUTPUTS: list[dict[str, Any]] = [
    {"actual_output": {"retrieved": [{"id": "doc-1", "text": "the expected answer span é", "score": 0.5}, "doc-2", 3]}},
    {"actualOutput": ["doc-2", "doc-1", "doc-2"], "latency_ms": 12.5, "usage": {"tokens": 7}, "cost": 0.001},
    {"retrieved": ["doc-1"], "answer": "x", "citations": ["doc-1"]},
    {"error": "timeout", "actual_output": None},
    {"actual_output": '{"retrieved": ["doc-1", "doc-3"], "answer": "y"}'},
    {"actual_output": '"[\\"doc-1\\"]"', "error": ""},
    {"actual_output": [], "error": None},
]


@dataclass
class Shard:
    """Two files' worth of lines: how each was made stands with it, for whoever must look at a failure."""

    seed: int
    dialect: str
    mutated: int
    samples: bytes
    outputs: bytes

    def write(self, folder: Path, shuffle: random.Random | None = None) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / "samples.jsonl", folder / "outputs.jsonl"
        for path, data in zip(paths, (self.samples, self.outputs), strict=True):
            if shuffle is not None:
                # One ending, so that a line keeps its bytes wherever it goes.
                lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
                shuffle.shuffle(lines)
                data = b"\n".join([b"", *lines])
            path.write_bytes(data)
        return paths


def make_shard(number: int, mutated: int, dialect: str) -> Shard:
    """About this many mutated lines, among clean ones that keep something to join."""
    seed = SEED + number
    rng = random.Random(seed)
    samples = random_samples(rng, mutated // 2)
    outputs = random_outputs(rng, samples)
    for i in range(0, len(samples), 4):
        samples[i] = {"id": samples[i]["id"], **rng.choice(EDGE_SAMPLES)}
    for i in range(0, len(outputs), 4):
        outputs[i] = {"id": outputs[i]["id"], **rng.choice(EDGE_OUTPUTS)}
    texts = []
    count = 0
    for records in (samples, outputs):
        lines: list[bytes] = []
        for record in records:
            # A clean copy beside a mutated one is a conflict, or a duplicate: both are wanted, most of all neither.
            if rng.random() < 0.2:
                lines.append(json.dumps(record).encode())
                if rng.random() < 0.5:
                    continue
            line = mutate_line(rng, record, rng.choice(records))
            count += 1
            lines += [line] * (2 if rng.random() < 0.03 else 1)
        clean = [{**record, "id": f"clean-{record['id']}"} for record in records[: len(records) // 20]]
        lines += [json.dumps(record).encode() for record in clean]
        lines += [rng.choice([b"", b"  ", b"\r", b"\x0c"]) for _ in range(20)]
        rng.shuffle(lines)
        texts.append(b"\n".join(lines) + rng.choice([b"", b"\n", b"\r\n"]))
    return Shard(seed, dialect, count, *texts)


@dataclass
class Run:
    """What a job wrote."""

    ledger: dict[str, Any]
    rows: pa.Table
    rejected: pa.Table
    manifest: dict[str, Any]


def run(paths: tuple[Path, Path], out: Path, dialect: str, metrics: str, block_rows: int, buckets: int) -> Run:
    asked = {
        "samples": [str(paths[0])], "outputs": [str(paths[1])], "out": str(out), "metrics": metrics, "dialect": dialect,
        "max_rejects": "100%", "run_date": "2026-11-18", "slice_by": "lang,tags", "block_rows": block_rows,
        "buckets": buckets, "limits": {"line_bytes": LINE_BYTES},
    }  # fmt: skip
    done = job.run(make_plan(asked, {}), [])
    tables: dict[str, list[pa.Table]] = defaultdict(list)
    for file in done.manifest["files"]:
        tables[file["path"].split("/")[0]].append(pq.read_table(Path(done.path) / file["path"]))
    return Run(
        done.manifest["ledger"],
        pa.concat_tables(tables["per_sample"]),
        pa.concat_tables(tables["rejected"]),
        done.manifest,
    )


def complaints(shard: Shard, paths: tuple[Path, Path], found: Run) -> list[str]:
    """Everything in which a run differs from what the reference says must become of its lines."""
    dialect = DIALECTS[shard.dialect]
    wrong: list[str] = []
    fates: dict[str, Fate] = {}
    shown: dict[str, list[str]] = defaultdict(list)
    for row in found.rejected.to_pylist():
        shown[row["location"]].append(row["code"])
    for side, path in zip(("samples", "outputs"), paths, strict=True):
        lines = read_lines(path.read_bytes(), side, dialect.strict_gold, LINE_BYTES)
        fate = fates[side] = decide(lines, dialect.keeps_flawed)
        for line in lines:
            codes = shown.pop(f"{path}:{line.number}", [])
            expected = fate.refused.get(line.number, set())
            once = len(codes) == (1 if expected else 0)
            if not once or not set(codes) <= expected:
                wrong.append(
                    f"seed {shard.seed}, {shard.dialect}, {side}, line {line.number}: rejected as {codes},"
                    f" expected one of {sorted(expected)}: {line.raw[:2000]!r}"
                )
    wrong += [f"rejected at {place}, where there is no record: {codes}" for place, codes in shown.items()]
    _join(fates["samples"], fates["outputs"], dialect.keeps_flawed)
    for side, fate in fates.items():
        held = found.ledger[side]
        if held != {word: fate.terms[word] for word in held}:
            wrong.append(
                f"seed {shard.seed}, {shard.dialect}: the ledger says {side} {held}, expected {dict(fate.terms)}"
            )
    if not found.ledger["balanced"]:
        wrong.append(f"seed {shard.seed}: the ledger does not balance")
    return wrong + _wrong_rows(shard, fates["samples"], fates["outputs"], found.rows)


def _join(samples: Fate, outputs: Fate, keeps_flawed: bool) -> None:
    for sample_id in samples.alive:
        samples.terms["joined" if sample_id in outputs.alive else "missing"] += 1
    for sample_id in outputs.alive:
        outputs.terms["matched" if sample_id in samples.alive else "unmatched"] += 1


def _wrong_rows(shard: Shard, samples: Fate, outputs: Fate, rows: pa.Table) -> list[str]:
    """Each sample has its rows and the right status; and one metric is worked out again."""
    wrong: list[str] = []
    metrics = len(set(rows["metric"].to_pylist()))
    held = Counter(rows["sample_id"].to_pylist())
    if held != Counter(dict.fromkeys(samples.alive, metrics)):
        odd = (held - Counter(samples.alive.keys())).keys() ^ samples.alive.keys()
        wrong.append(f"seed {shard.seed}: samples with other rows than expected: {sorted(odd)[:10]!r}")
    if shard.dialect != "standard":
        return wrong
    for row in rows.to_pylist():
        if row["metric"] == "containment":  # its gold is the answer, not the documents
            continue
        sample_id, output = row["sample_id"], outputs.alive.get(row["sample_id"])
        gold = samples.alive[sample_id].gold or {}
        relevant = {doc for doc, gain in gold.items() if gain > 0}
        if not relevant:
            status = {"no_relevant", *((_bad(sample_id, outputs),) if output is None or output.failed else ())}
        else:
            status = {_bad(sample_id, outputs) if output is None or output.failed else "scored"}
        value = row["value"]
        if row["status"] not in status:
            wrong.append(f"seed {shard.seed}: {sample_id!r} is {row['status']}, expected {sorted(status)}")
        elif row["metric"] == "mrr" and row["status"] == "scored" and output is not None:
            ranks = [rank for rank, doc in enumerate(dict.fromkeys(output.ranked or []), 1) if doc in relevant]
            expected = 1 / ranks[0] if ranks else 0.0
            if value != expected:
                wrong.append(f"seed {shard.seed}: mrr of {sample_id!r} is {value}, expected {expected}")
    return wrong


def _bad(sample_id: str, outputs: Fate) -> str:
    if sample_id in outputs.alive:
        return "error"
    if sample_id in outputs.conflicting:
        return "conflict"
    return "bad_output" if sample_id in outputs.flawed else "missing_output"


METRICS = {
    name: ",".join(
        f"{metric}@5" if metric in ("hit", "recall", "precision", "ndcg") else metric for metric in held.metrics[:6]
    )
    for name, held in DIALECTS.items()
}
METRICS["standard"] = "mrr,recall@5,ndcg@k,containment"
