"""Samples meet outputs: what becomes of every id, in however many blocks and buckets it comes."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from transforms import join as join_module
from transforms.conflicts import ROWS_AT_ONCE
from transforms.join import Joined, fold, gather, join, split
from transforms.parse import Source, Wants, parse_outputs, parse_samples
from transforms.records import REJECTED, Rows, Status, output_block, place, sample_block

from .datasets import random_outputs, random_samples

SOURCES = (Source("samples", 0, "s.jsonl"), Source("outputs", 1, "o.jsonl"))
WANTS = Wants()


def block(records: list[Any], side: int, first: int = 1) -> pa.RecordBatch:
    raw = Rows(list(range(first, first + len(records))), records)
    return (parse_samples, parse_outputs)[side](raw, SOURCES[side], WANTS).block


def joined(samples: list[Any], outputs: list[Any]) -> tuple[Joined, list[str], Counter[str]]:
    found, rejected, terms = join(fold(block(samples, 0)), fold(block(outputs, 1)), SOURCES)
    return found, [place for batch in rejected for place in batch["location"].to_pylist()], terms


def outcomes(found: Joined) -> dict[str, Status]:
    ids = found.samples["sample_id"].to_pylist()
    return dict(zip(ids, map(Status, found.outcome.tolist()), strict=True))


def sample(sample_id: str, *docs: str) -> dict[str, Any]:
    return {"id": sample_id, "expected_output": list(docs) or ["a"]}


def output(sample_id: str, *docs: str, **more: Any) -> dict[str, Any]:
    return {"id": sample_id, "actual_output": list(docs), **more}


def test_an_id_on_both_sides_joins() -> None:
    found, rejected, terms = joined([sample("p"), sample("q")], [output("r"), output("q")])
    assert outcomes(found) == {"p": Status.MISSING_OUTPUT, "q": Status.SCORED}
    assert found.owner.tolist() == [-1, 1]
    assert not rejected
    assert terms == {"samples.joined": 1, "samples.missing": 1, "outputs.matched": 1, "outputs.unmatched": 1}


@pytest.mark.parametrize("other", ["Q", " q", "q ", "ｑ", "q\u0301"])
def test_ids_join_exactly_or_not_at_all(other: str) -> None:
    found, _, _ = joined([sample("q")], [output(other)])
    assert outcomes(found) == {"q": Status.MISSING_OUTPUT}


def test_of_equal_records_one_is_kept_and_the_others_are_duplicates() -> None:
    found, rejected, terms = joined([sample("q")] * 3, [output("q", "a")] * 4)
    assert outcomes(found) == {"q": Status.SCORED}
    assert not rejected
    assert terms == {"samples.joined": 1, "samples.duplicate": 2, "outputs.matched": 1, "outputs.duplicate": 3}


def test_duplicates_of_an_unmatched_output_are_duplicates_too() -> None:
    _, _, terms = joined([], [output("q")] * 3)
    assert terms == {"outputs.unmatched": 1, "outputs.duplicate": 2}


def test_conflicting_outputs_are_all_rejected_and_the_sample_is_told() -> None:
    outputs = [output("q", "a"), output("q", "b"), output("q", "a"), output("p")]
    found, rejected, terms = joined([sample("q"), sample("p")], outputs)
    assert outcomes(found) == {"q": Status.CONFLICT, "p": Status.SCORED}
    assert sorted(rejected) == ["o.jsonl:1", "o.jsonl:2", "o.jsonl:3"]
    assert terms["outputs.rejected.conflict"] == 3
    assert terms["samples.missing"] == terms["samples.joined"] == 1
    assert -1 in found.owner


def test_conflicting_samples_leave_their_outputs_unmatched() -> None:
    found, rejected, terms = joined([sample("q", "a"), sample("q", "b")], [output("q")])
    assert found.samples.num_rows == 0
    assert sorted(rejected) == ["s.jsonl:1", "s.jsonl:2"]
    assert terms == {"samples.rejected.conflict": 2, "outputs.unmatched": 1}


def test_a_bad_body_beside_a_good_one_is_a_conflict() -> None:
    found, rejected, terms = joined([sample("q")], [output("q", "a"), {"id": "q", "actual_output": 7}])
    assert outcomes(found) == {"q": Status.CONFLICT}
    assert rejected == ["o.jsonl:1"], "the bad one was rejected where it was read"
    assert terms == {"samples.missing": 1, "outputs.rejected.conflict": 1}
    found, rejected, terms = joined([sample("q"), {"id": "q", "expected_output": 7}], [output("q")])
    assert found.samples.num_rows == 0
    assert rejected == ["s.jsonl:1"]
    assert terms == {"samples.rejected.conflict": 1, "outputs.unmatched": 1}


def test_a_bad_output_is_neither_missing_nor_scored() -> None:
    found, rejected, terms = joined([sample("q")], [{"id": "q", "actual_output": 7}] * 2)
    assert outcomes(found) == {"q": Status.BAD_OUTPUT}
    assert not rejected
    assert terms == {"samples.missing": 1}


def test_a_bad_gold_leaves_its_output_unmatched() -> None:
    found, _, terms = joined([{"id": "q", "expected_output": 7}], [output("q")])
    assert found.samples.num_rows == 0
    assert terms == {"outputs.unmatched": 1}


def test_an_output_with_an_error_is_an_answer_but_no_list() -> None:
    found, _, terms = joined([sample("q")], [output("q", "a", error="timeout")])
    assert outcomes(found) == {"q": Status.ERROR}
    assert found.owner.tolist() == [-1]
    assert terms == {"samples.joined": 1, "outputs.matched": 1}


def test_empty_sides_join_to_nothing() -> None:
    found, rejected, terms = joined([], [])
    assert (found.samples.num_rows, len(found.outcome), rejected, terms) == (0, 0, [], Counter())


def test_folding_keeps_one_row_a_content_and_every_place() -> None:
    records = [output("q", "a"), output("p"), output("q", "b"), output("q", "a"), output("p")]
    folded = fold(block(records, 1))
    found = [(row["sample_id"], row["docs"], row["at"]) for row in folded.to_pylist()]
    assert found == [
        ("q", None, [place(1, 1), place(1, 4)]),  # contradicted, so no body is left to shuffle
        ("p", [], [place(1, 2), place(1, 5)]),
        ("q", None, [place(1, 3)]),
    ]
    assert fold(folded).equals(folded)
    assert folded.schema.equals(output_block(False))


def test_equal_hashes_of_ids_fold_nothing_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_module, "hash_column", lambda ids: np.zeros(len(ids), np.uint64))
    records = [output("p"), output("q"), output("p")]
    assert fold(block(records, 1))["sample_id"].to_pylist() == ["p", "q"]


@pytest.mark.parametrize("side", [0, 1])
def test_a_part_comes_back_from_a_bucket_as_it_went(side: int) -> None:
    whole = block([{**sample(f"q-{i}"), **output(f"q-{i}", "a")} for i in range(50)], side)
    schema = (sample_block((), False), output_block(False))[side]
    for buckets in (1, 3):
        parts = [gather([part], schema) for _, part in split(whole, buckets)]
        assert len(parts) == buckets
        together = pa.Table.from_batches(parts)
        assert sorted(map(repr, together.to_pylist())) == sorted(map(repr, whole.to_pylist()))


def through_buckets(samples: list[Any], outputs: list[Any], buckets: int, size: int) -> tuple[Any, Any, Any]:
    """The whole way by hand: blocks, fold, split, gather, join."""
    grouped: dict[int, tuple[list[bytes], list[bytes]]] = {}
    for side, records in enumerate((samples, outputs)):
        for at in range(0, len(records), size):
            for bucket, part in split(fold(block(records[at : at + size], side, at + 1)), buckets):
                grouped.setdefault(bucket, ([], []))[side].append(part)
    assert set(grouped) <= set(range(buckets))
    rows, rejects, total = [], [], Counter[str]()
    for sides in grouped.values():
        found, rejected, terms = join(
            gather(sides[0], sample_block((), False)), gather(sides[1], output_block(False)), SOURCES
        )
        lists = {int(owner): docs for owner, docs in zip(found.owner, found.outputs["docs"].to_pylist(), strict=True)}
        ids = found.samples["sample_id"].to_pylist()
        rows += [(each, int(found.outcome[i]), lists.get(i)) for i, each in enumerate(ids)]
        for batch in rejected:
            rejects += batch.cast(REJECTED).to_pylist()
        total += terms
    return sorted(rows), sorted(rejects, key=lambda row: row["location"]), total


def messy(rng: random.Random, n: int) -> tuple[list[Any], list[Any]]:
    samples = random_samples(rng, n)
    outputs = random_outputs(rng, samples)
    for records in (samples, outputs):
        records += rng.sample(records, n // 5)
        records += [{**record, "answer": "other"} for record in rng.sample(records, n // 5)]
        bad = {"expected_output": 7, "actual_output": 7}
        for i in rng.sample(range(len(records)), n // 5):
            records[i] = {"id": records[i]["id"], **bad}
        rng.shuffle(records)
    return samples, outputs


def test_buckets_and_blocks_change_nothing() -> None:
    samples, outputs = messy(random.Random(11), 120)
    expected = through_buckets(samples, outputs, 1, 10_000)
    assert {outcome for _, outcome, _ in expected[0]} == {0, 1, 2, 3, 5}
    for buckets in (1, 3, 64):
        for size in (1, 7, 1000):
            assert through_buckets(samples, outputs, buckets, size) == expected


def test_a_million_copies_of_one_id_stay_cheap() -> None:
    """What crosses the shuffle is one row and eight bytes a copy."""
    one = block([output("q", *(f"doc-{i}" for i in range(100)))], 1)
    size, parts = 100_000, []
    for first in range(0, 1_000_000, size):
        copies = one.take(pa.array(np.zeros(size, np.int64)))
        at = pa.array([[place(1, first + i + 1)] for i in range(size)], pa.list_(pa.int64()))
        copies = copies.set_column(copies.schema.get_field_index("at"), copies.schema.field("at"), at)
        parts += [part for _, part in split(fold(copies), 64)]
    assert sum(map(len, parts)) < 9_000_000
    found, rejected, terms = join(fold(block([sample("q")], 0)), gather(parts, output_block(False)), SOURCES)
    assert outcomes(found) == {"q": Status.SCORED}
    assert not list(rejected)
    assert terms["outputs.duplicate"] == 999_999


def test_every_one_of_many_conflicting_copies_is_named() -> None:
    outputs = [output("q", str(i % 5)) for i in range(20_000)]
    _, rejected, terms = joined([sample("q")], outputs)
    assert sorted(rejected) == sorted(f"o.jsonl:{i}" for i in range(1, 20_001))
    assert terms["outputs.rejected.conflict"] == 20_000


def test_a_conflict_names_the_earliest_record_that_differs_in_whatever_order_they_come() -> None:
    outputs = [output("p"), output("q", "a"), output("q", "a"), output("q", "b"), output("q", "c"), output("r")]
    for size in (1, 2, 6):
        for turn in (1, -1):
            parts = [fold(block(outputs[at : at + size], 1, at + 1)) for at in range(0, 6, size)][::turn]
            folded = fold(pa.concat_batches(parts))
            _, batches, _ = join(fold(block([sample("q")], 0)), folded, SOURCES)
            rows = [row for batch in batches for row in batch.cast(REJECTED).to_pylist()]
            named = {row["location"]: row["message"].split(" has this id and different content")[0] for row in rows}
            differing = {2: 4, 3: 4, 4: 2, 5: 2}
            assert named == {f"o.jsonl:{at}": f"o.jsonl:{other}" for at, other in differing.items()}
            assert {(row["preview"], row["sha256"]) for row in rows} == {('{"id":"q"}', None)}


def test_many_conflicts_come_in_batches_of_bounded_size() -> None:
    outputs = [output("q", str(i)) for i in range(ROWS_AT_ONCE + 1)]
    _, batches, _ = join(fold(block([sample("q")], 0)), fold(block(outputs, 1)), SOURCES)
    assert [batch.num_rows for batch in batches] == [ROWS_AT_ONCE, 1]


def test_differing_records_of_one_id_shuffle_their_envelopes_only() -> None:
    records = [output("q", *(f"doc-{i}-{rank}" for rank in range(100))) for i in range(2_000)]
    ((_, part),) = split(fold(block(records, 1)), 1)
    assert len(part) < 2_000 * 60
