"""Mutated input has two fates, record or reject; a container may also be broken, and is then named. Nothing else."""

import random
from collections import Counter
from pathlib import Path

import pytest

from transforms.dialects import DIALECTS

from . import fuzz_records as records

DIALECT_NAMES = list(DIALECTS)
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
