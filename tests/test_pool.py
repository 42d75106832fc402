"""Pooling: accumulators by hand, the summary against plain Python, the pipeline against the direct computation."""

import math
import statistics
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_pipeline
from apache_beam.testing.util import assert_that

from transforms import exact, pool
from transforms.pool import CountCombineFn, MeanCombineFn, PoolCombineFn, PoolMetrics, pool_rows
from transforms.records import SUMMARY, MetricRows, Status

METRICS = ("hit@5", "ndcg@k", "mrr")


def make_block(values, k=None, outcome=None, **slices):
    values = np.array(values, float)
    m, n = values.shape
    return MetricRows(
        sample_ids=pa.array([f"s{i}" for i in range(n)]),
        outcome=np.array([Status.SCORED] * n if outcome is None else outcome, np.int8),
        values=values,
        status=np.zeros((m, n), np.int8),
        k=np.zeros((m, n), np.int32) if k is None else np.array(k, np.int32),
        slices={name: pa.array(lists, pa.list_(pa.string())) for name, lists in slices.items()},
    )


def random_block(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, 2, n).astype(float), rng.random(n), 1 / rng.integers(1, 50, n)])
    values[:, rng.random(n) < 0.1] = np.nan
    values[1, rng.random(n) < 0.1] = np.nan
    k = np.stack([np.full(n, 5), rng.integers(3, 5, n), np.zeros(n)])
    outcome = rng.choice([Status.SCORED, Status.MISSING_OUTPUT, Status.ERROR], n, p=[0.8, 0.1, 0.1])
    lang = [[word] for word in rng.choice(["de", "en", "", "(none)", "日本"], n)]
    tags = [[f"t{min(t, 40)}" for t in rng.zipf(1.5, size)] for size in rng.integers(1, 5, n)]
    return make_block(values, k, outcome, lang=lang, tags=tags)


def part(block, start, stop):
    return MetricRows(
        block.sample_ids[start:stop],
        block.outcome[start:stop],
        block.values[:, start:stop],
        block.status[:, start:stop],
        block.k[:, start:stop],
        {name: lists[start:stop] for name, lists in block.slices.items()},
    )


def cut(block, size):
    return [part(block, start, start + size) for start in range(0, len(block.outcome), size)]


def permuted(block, order):
    return MetricRows(
        block.sample_ids.take(order),
        block.outcome[order],
        block.values[:, order],
        block.status[:, order],
        block.k[:, order],
        {name: lists.take(pa.array(order)) for name, lists in block.slices.items()},
    )


def plain_summary(block, metrics, slice_by, max_values):
    """The same table from Python's own fractions, lists and sorting, one sample at a time."""
    members = defaultdict(list, {("all", None): list(range(len(block.outcome)))})
    order = [("all", None)]
    for name in slice_by:
        found = defaultdict(list)
        for sample, values in enumerate(block.slices[name].to_pylist()):
            for value in set(values):
                found[value].append(sample)
        real = sorted(set(found) - {"(none)", "(other)"}, key=lambda value: (-len(found[value]), value))
        for value in real[max_values:]:
            found["(other)"] += found.pop(value)
        order += [(name, value) for value in sorted(real[:max_values])]
        order += [(name, value) for value in ("(none)", "(other)") if value in found]
        members |= {(name, value): samples for value, samples in found.items()}
    return [plain_row(block, i, metric, key, members[key]) for key in order for i, metric in enumerate(metrics)]


def plain_row(block, i, metric, key, samples):
    values = sorted(v for v in block.values[i, samples].tolist() if not math.isnan(v))
    ks, n, expected = set(block.k[i, samples].tolist()), len(values), len(samples)
    missing = sum(block.outcome[sample] != Status.SCORED for sample in samples)
    mean = float(sum(map(Fraction, values)) / n) if n else None
    std = statistics.stdev(map(Fraction, values)) if n > 1 else None
    reach = 1.959963984540054 * float(std) / math.sqrt(n) if n > 1 else None
    return {
        "metric": metric,
        "k": ks.pop() or None if len(ks) == 1 else None,
        "slice": key[0],
        "slice_value": key[1],
        "mean": mean,
        "count": n,
        "expected": expected,
        "missing": missing,
        "undefined": expected - n,
        "answered": (expected - missing) / expected,
        "std": None if std is None else float(std),
        "min": values[0] if n else None,
        "max": values[-1] if n else None,
        "p50": values[math.ceil(n / 2) - 1] if n else None,
        "p95": values[math.ceil(Fraction(95 * n, 100)) - 1] if n else None,
        "ci_low": mean - reach if n > 1 else None,
        "ci_high": mean + reach if n > 1 else None,
    }


# The accumulators, by hand.


def test_mean_of_floats_and_of_arrays_is_one_mean():
    mean = MeanCombineFn()
    a = mean.add_input(mean.add_input(mean.create_accumulator(), 0.1), np.array([0.2, 0.3]))
    b = mean.add_input(mean.create_accumulator(), 0.4)
    assert mean.extract_output(mean.merge_accumulators([a, b])) == 0.25
    assert mean.merge_accumulators([a, b]) == mean.merge_accumulators([b, a])
    assert mean.merge_accumulators([a, mean.create_accumulator()]) == a


def test_mean_of_nothing_is_none():
    mean = MeanCombineFn()
    assert mean.extract_output(mean.create_accumulator()) is None
    assert mean.extract_output(mean.merge_accumulators([])) is None
    assert mean.extract_output(mean.add_input(mean.create_accumulator(), math.nan)) is None


def test_mean_refuses_infinity():
    with pytest.raises(ValueError, match="no exact sum"):
        MeanCombineFn().add_input((0, 0), math.inf)


def test_count_counts_what_the_mean_takes():
    count = CountCombineFn()
    a = count.add_input(count.create_accumulator(), np.array([0.5, math.nan, 0.0]))
    b = count.add_input(count.create_accumulator(), 1.0)
    assert count.extract_output(count.merge_accumulators([a, b, count.create_accumulator()])) == 3
    assert count.extract_output(count.create_accumulator()) == 0


def test_a_thousand_shuffled_and_rebracketed_merges_give_one_bit_pattern():
    rng = np.random.default_rng(7)
    values = rng.random(10_000) * 10.0 ** rng.integers(-12, 12, 10_000) * rng.choice([-1, 1], 10_000)
    mean = MeanCombineFn()
    seen = set()
    for _ in range(1000):
        rng.shuffle(values)
        bounds = np.sort(rng.integers(0, 10_000, 30))
        parts = [mean.add_input(mean.create_accumulator(), part) for part in np.split(values, bounds)]
        while len(parts) > 1:
            at, width = rng.integers(len(parts) - 1), rng.integers(2, 5)
            parts[at : at + width] = [mean.merge_accumulators(parts[at : at + width])]
        seen.add(mean.extract_output(parts[0]).hex())
    assert seen == {float(sum(map(Fraction, values.tolist())) / 10_000).hex()}


def part_of(block):
    return dict(pool.split(block, ()))[pool.WHOLE_SET]


def rows_of(pooled):
    return pool.describe((pool.WHOLE_SET, pooled))[1]


def test_pooled_slices_merge_both_ways_and_leave_their_parts_alone():
    combine = PoolCombineFn()
    small, large = (combine.add_input(combine.create_accumulator(), part_of(random_block(n, n))) for n in (50, 3000))
    assert small.pending and not small.tallies
    assert large.tallies and not large.pending
    before = rows_of(small), rows_of(large)
    merged = rows_of(combine.merge_accumulators([small, large]))
    assert merged == rows_of(combine.merge_accumulators([large, combine.create_accumulator(), small]))
    assert (rows_of(small), rows_of(large)) == before
    direct = list(map(random_block, (50, 3000), (50, 3000)))
    assert merged == [
        tuple(row[name] for name in SUMMARY.names if name not in ("metric", "slice", "slice_value"))
        for row in pool_rows(direct, METRICS).to_pylist()
    ]


def test_an_empty_slice_has_no_rows():
    combine = PoolCombineFn()
    assert rows_of(combine.extract_output(combine.create_accumulator())) == []


def test_many_single_samples_pool_like_one_block():
    block = random_block(1500)
    combine = PoolCombineFn()
    pooled = combine.create_accumulator()
    for single in cut(block, 1):
        pooled = combine.add_input(pooled, part_of(single))
        assert len(pooled.pending) <= 17
    assert rows_of(combine.extract_output(pooled)) == rows_of(part_of(block))


# The summary.


@pytest.mark.parametrize("max_values", [1000, 7])
def test_summary_is_that_of_plain_python(max_values):
    block = random_block(2000)
    table = pool_rows([block], METRICS, ("tags", "lang"), max_values)
    assert table.schema == SUMMARY
    assert table.to_pylist() == plain_summary(block, METRICS, ("tags", "lang"), max_values)


def test_counts_stand_beside_the_mean():
    block = make_block(
        [[1.0, 0.0, math.nan, 0.0], [0.5, 0.5, 0.5, 0.5], [math.nan] * 4],
        outcome=[Status.SCORED, Status.MISSING_OUTPUT, Status.SCORED, Status.BAD_OUTPUT],
    )
    hit, ndcg, mrr = pool_rows([block], METRICS).to_pylist()
    assert {row["expected"] for row in (hit, ndcg, mrr)} == {4}
    assert {row["missing"] for row in (hit, ndcg, mrr)} == {2}
    assert {row["answered"] for row in (hit, ndcg, mrr)} == {0.5}
    assert [(row["count"], row["undefined"]) for row in (hit, ndcg, mrr)] == [(3, 1), (4, 0), (0, 4)]
    assert [row["mean"] for row in (hit, ndcg, mrr)] == [1 / 3, 0.5, None]
    assert ndcg["std"] == 0.0 and ndcg["ci_low"] == ndcg["ci_high"] == 0.5
    numbers = ("mean", "std", "min", "max", "p50", "p95", "ci_low", "ci_high")
    assert {mrr[name] for name in numbers} == {None}


@pytest.mark.parametrize(
    "outcome", [Status.MISSING_OUTPUT, Status.BAD_OUTPUT, Status.CONFLICT, Status.ERROR], ids=lambda s: s.name
)
def test_every_outcome_but_scored_is_missing(outcome):
    assert pool_rows([make_block([[0.0]], outcome=[outcome])], ["mrr"])["missing"].to_pylist() == [1]


def test_one_value_has_neither_deviation_nor_interval():
    (row,) = pool_rows([make_block([[0.25]])], ["mrr"]).to_pylist()
    assert row["mean"] == row["min"] == row["max"] == row["p50"] == row["p95"] == 0.25
    assert row["std"] is row["ci_low"] is row["ci_high"] is None


def test_k_is_null_unless_all_samples_resolved_to_one():
    k = [[5, 5, 5], [3, 3, 4], [0, 0, 0]]
    table = pool_rows([make_block(np.ones((3, 3)), k, lang=[["a"], ["a"], ["b"]])], METRICS, ["lang"])
    assert table["k"].to_pylist() == [5, None, None, 5, 3, None, 5, 4, None]


def test_no_samples_make_a_summary_of_zeros():
    for blocks in ([], [make_block(np.empty((3, 0)), lang=[])]):
        table = pool_rows(blocks, METRICS, ["lang"])
        assert table["metric"].to_pylist() == list(METRICS)
        assert table["slice"].to_pylist() == ["all"] * 3
        assert table["expected"].to_pylist() == table["count"].to_pylist() == [0, 0, 0]
        assert table["answered"].to_pylist() == table["mean"].to_pylist() == [None] * 3


def slices_of(table):
    rows = zip(*(table[name].to_pylist() for name in ("slice", "slice_value", "expected")), strict=True)
    return list(dict.fromkeys(rows))


def test_a_list_counts_its_sample_once_in_each_distinct_value():
    tags = [["b", "a", "b"], ["b"], ["(none)"], [""]]
    table = pool_rows([make_block([[1.0, 0.0, 0.0, 1.0]], tags=tags)], ["mrr"], ["tags"])
    assert slices_of(table) == [
        ("all", None, 4),
        ("tags", "", 1),
        ("tags", "a", 1),
        ("tags", "b", 2),
        ("tags", "(none)", 1),
    ]
    assert table["mean"].to_pylist() == [0.5, 1.0, 1.0, 0.5, 0.0]


def test_fields_come_in_plan_order_even_one_called_all():
    block = make_block([[1.0, 0.0]], **{"z": [["1"], ["2"]], "all": [[""], [""]]})
    assert slices_of(pool_rows([block], ["mrr"], ["z", "all"])) == [
        ("all", None, 2),
        ("z", "1", 1),
        ("z", "2", 1),
        ("all", "", 2),
    ]


def test_past_the_cap_the_most_frequent_values_stay_and_ties_go_by_value():
    lang = [[v] for v in ["c", "c", "d", "b", "a", "e", "e", "e", "(none)", "(other)"]]
    block = make_block([[0.0, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 1.0, 0.75]], lang=lang)
    # Chosen after pooling: in blocks of one sample every value is as frequent as the next.
    for blocks in ([block], cut(block, 1)):
        table = pool_rows(blocks, ["mrr"], ["lang"], max_values=3)
        assert slices_of(table)[1:] == [
            ("lang", "a", 1),
            ("lang", "c", 2),
            ("lang", "e", 3),
            ("lang", "(none)", 1),
            ("lang", "(other)", 3),
        ]
        assert table["mean"].to_pylist()[-1] == (0.0 + 0.5 + 0.75) / 3


@pytest.mark.parametrize("size", [1, 7, 1024, 5000])
def test_block_size_and_order_leave_no_trace(size, monkeypatch):
    monkeypatch.setattr(exact, "DISTINCT", 300)  # so that the second metric passes it in some slices, not in all
    block = random_block()
    expected = pool_rows([block], METRICS, ("lang", "tags"), 20)
    order = np.random.default_rng(size).permutation(5000)
    blocks = cut(permuted(block, order), size)
    assert pool_rows(blocks, METRICS, ("lang", "tags"), 20).equals(expected)


# The pipeline.


def run_pipeline(make, size, slice_by, max_values=pool.MAX_VALUES, options=None):
    """The block that `make` makes, through a pipeline in parts of `size`, must pool as it does directly."""
    n = len(make().outcome)
    expected = pool_rows([make()], METRICS, slice_by, max_values)

    def holds_expected(batches):
        (batch,) = batches
        assert batch.schema == SUMMARY
        assert pa.Table.from_batches([batch]).equals(expected), batch.to_pylist()

    with test_pipeline.TestPipeline(runner="FnApiRunner", options=options) as root:
        found = (
            root
            # Blocks are made inside the pipeline: Create would pickle and compress them with the graph, for seconds.
            | beam.Create(range(0, n, size))
            | beam.Map(lambda start: part(make(), start, start + size)).with_output_types(MetricRows)
            | PoolMetrics(METRICS, slice_by, max_values)
        )
        assert_that(found, holds_expected)


@pytest.mark.parametrize("max_values", [1000, 7])
@pytest.mark.parametrize("size", [700, 5000])
def test_pipeline_equals_direct_computation(size, max_values):
    run_pipeline(random_block, size, ("tags", "lang"), max_values)


def test_pipeline_without_slices_equals_direct_computation():
    run_pipeline(random_block, 5000, ())


def test_pipeline_of_nothing_gives_one_summary_of_zeros():
    for slice_by in ((), ("lang",)):
        run_pipeline(lambda: make_block(np.empty((3, 0)), lang=[]), 10, slice_by)


def test_separate_worker_processes_give_the_same_bits():
    options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
    run_pipeline(random_block, 250, ("tags", "lang"), 7, options)


@pytest.mark.slow
def test_a_hundred_thousand_slice_values_pool_through_the_pipeline():
    def make():
        rng = np.random.default_rng(8)
        return make_block(rng.random((3, 100_000)), lang=[[f"v{i}"] for i in rng.permutation(100_000)])

    found = slices_of(pool_rows([make()], METRICS, ["lang"]))
    assert len(found) == 1 + 1000 + 1
    assert found[-1] == ("lang", "(other)", 99_000)
    run_pipeline(make, 65_536, ("lang",))


def test_keys_of_slices_are_not_pickled():
    root = beam.Pipeline(runner="FnApiRunner")
    _ = root | beam.Create([]).with_output_types(MetricRows) | PoolMetrics(METRICS, ("lang",))
    coders = {}

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node):
            for output in node.outputs.values():
                coders[node.full_label] = repr(beam.coders.registry.get_coder(output.element_type))

    root.visit(Visitor())
    grouped = [coder for label, coder in coders.items() if label.endswith(("Slices/GroupByKey", "Other/GroupByKey"))]
    assert len(grouped) == 2
    assert all(coder.startswith("TupleCoder[TupleCoder[VarIntCoder, StrUtf8Coder]") for coder in grouped)


def test_a_block_is_not_written_to():
    block = random_block(1500)
    before = replace(block, values=block.values.copy(), k=block.k.copy())
    pool_rows([block], METRICS, ("tags",))
    assert np.array_equal(block.values, before.values, equal_nan=True)
    assert np.array_equal(block.k, before.k)
