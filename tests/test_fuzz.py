"""Mutated input has two fates, record or reject; a container may also be broken, and is then named. Nothing else."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from transforms.dialects import DIALECTS

from . import fuzz_records as records

DIALECT_NAMES = list(DIALECTS)
ROOT = Path(__file__).resolve().parents[1]
SHARDS = 21
MUTATED = 100_000


def checked(number: int, mutated: int, folder: Path) -> records.Shard:
    """One shard through a whole run, every line of it held against the reference."""
    shard = records.make_shard(number, mutated, DIALECT_NAMES[number % len(DIALECT_NAMES)])
    paths = shard.write(folder)
    block_rows, buckets = ((65536, 1), (700, 3), (97, 2))[number % 3]
    found = records.run(paths, folder / "runs", shard.dialect, records.METRICS[shard.dialect], block_rows, buckets)
    wrong = records.complaints(shard, paths, found)
    assert not wrong, "\n".join(wrong[:20])
    assert found.ledger["samples"]["joined"] > 20 and found.ledger["outputs"]["unmatched"] > 20
    return shard


@pytest.mark.parametrize("number", [0, 2])
def test_mutated_records_end_as_record_or_reject(tmp_path: Path, number: int) -> None:
    checked(number, 1500, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hundred_thousand_mutated_records_are_all_accounted_for(tmp_path: Path) -> None:
    total = sum(checked(number, 5500, tmp_path / str(number)).mutated for number in range(SHARDS))
    assert total >= MUTATED


@pytest.mark.parametrize("dialect", ["standard", "eval-harness"])
def test_neither_order_nor_block_size_decides_what_becomes_of_a_record(tmp_path: Path, dialect: str) -> None:
    shard = records.make_shard(1000, 1500, dialect)
    seen = []
    for number, (block_rows, buckets) in enumerate([(65536, 1), (61, 4), (1000, 2)]):
        folder = tmp_path / str(number)
        paths = shard.write(folder, random.Random(number))
        found = records.run(paths, folder / "runs", dialect, records.METRICS[dialect], block_rows, buckets)
        assert not records.complaints(shard, paths, found)
        # Not the message: that of a conflict names a place, and places move with the order.
        told = (found.rejected[name].to_pylist() for name in ("code", "sha256", "preview"))
        rejected = Counter(zip(*told, strict=True))
        seen.append((found.ledger, sorted(map(repr, found.rows.to_pylist())), rejected))
    assert seen[0] == seen[1] == seen[2]


def spoilt(kind: str, start: int, stop: int, folder: Path) -> Counter[str]:
    """Files of one kind, read in a process that may die without taking the test with it."""
    command = [sys.executable, "-m", "tests.fuzz_containers", kind, str(start), str(stop), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    at = (folder / "index").read_text() if (folder / "index").exists() else "none"
    current = next(folder.glob("current.*"), None)
    data = current.read_bytes()[:3000] if current else b""
    assert done.returncode == 0, f"{kind} {at}: exit {done.returncode}\n{done.stderr[-3000:]}\n{data!r}"
    found = json.loads(done.stdout)
    assert found["peak_mib"] < 700
    print(kind, found)
    return Counter(found["outcomes"])


@pytest.mark.parametrize("kind", ["parquet", "avro", "run", "toml"])
def test_mutated_files_are_read_or_named(tmp_path: Path, kind: str) -> None:
    assert len(spoilt(kind, 0, 80, tmp_path)) > 1


FILES = {
    "parquet": 1600, "autorag": 300, "avro": 800, "jsonl.gz": 300, "jsonl.zst": 300, "yaml": 400, "qrels": 300,
    "run": 300, "beir": 300, "json": 300, "toml": 400,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_five_thousand_mutated_files_are_read_or_named(tmp_path: Path, kind: str) -> None:
    assert sum(FILES.values()) >= 5000
    assert spoilt(kind, 0, FILES[kind], tmp_path).total() == FILES[kind]
