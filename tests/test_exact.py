"""Exact sums against fractions, bags of values against sorted lists."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms import exact

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
EDGES = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, -2.225073858507201e-308, 1.7976931348623157e308, -1e308]


def fractions_sum(values, counts=None, power=1):
    counts = [1] * len(values) if counts is None else counts
    return sum((Fraction(v) ** power * int(c) for v, c in zip(values, counts, strict=True)), Fraction())


def total(values, counts=None):
    return Fraction(exact.total(np.array(values, float), counts), 1 << 1074)


def squares(values, counts=None):
    return Fraction(exact.squares(np.array(values, float), counts), 1 << 2148)


@given(st.lists(FINITE | st.sampled_from(EDGES), max_size=40))
def test_sums_are_those_of_fractions(values):
    assert total(values) == fractions_sum(values)
    assert squares(values) == fractions_sum(values, power=2)


@given(st.lists(st.tuples(FINITE | st.sampled_from(EDGES), st.integers(1, 2**62)), min_size=1, max_size=20))
def test_a_count_stands_for_that_many_values(pairs):
    values, counts = zip(*pairs, strict=True)
    assert total(values, np.array(counts)) == fractions_sum(values, counts)
    assert squares(values, np.array(counts)) == fractions_sum(values, counts, power=2)


def test_largest_mantissas_do_not_overflow_a_chunk():
    value = math.nextafter(1.0, 0.0)
    values, n = np.full(3 * 65_536 + 1, value), 3 * 65_536 + 1
    assert total(values) == n * Fraction(value)
    assert squares(values) == n * Fraction(value) ** 2
    counts = np.full(n, 511)
    assert total(-values, counts) == -511 * n * Fraction(value)
    assert squares(-values, counts) == 511 * n * Fraction(value) ** 2


def test_millions_of_values_are_summed_exactly():
    # Multiples of 2**-30 of a known integer sum, so that the expected value needs no slow loop.
    integers = np.random.default_rng(1).integers(-(2**30), 2**30, 3_000_000)
    values = integers / 2.0**30
    assert total(values) == Fraction(int(integers.sum()), 2**30)
    low, high = integers & 0x7FFF, integers >> 15
    square = int((low * low).sum()) + (int((low * high).sum()) << 16) + (int((high * high).sum()) << 30)
    assert squares(values) == Fraction(square, 2**60)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_sum(bad):
    with pytest.raises(ValueError, match="no exact sum"):
        exact.total(np.array([0.5, bad]))
    with pytest.raises(ValueError, match="no exact sum"):
        exact.squares(np.array([0.5, bad]))


def test_nothing_sums_to_zero():
    assert exact.total(np.array([])) == exact.squares(np.array([])) == 0


@given(st.lists(FINITE | st.sampled_from(EDGES), min_size=1, max_size=20))
def test_the_mean_is_rounded_once(values):
    assert exact.mean(exact.total(np.array(values)), len(values)) == float(fractions_sum(values) / len(values))


def is_nearest_root(root, square):
    """Whether no other float is nearer to the square root of a fraction."""
    below, above = math.nextafter(root, -math.inf), math.nextafter(root, math.inf)
    lower, upper = ((Fraction(a) + Fraction(b)) / 2 for a, b in pairwise((below, root, above)))
    return max(lower, Fraction()) ** 2 <= square <= upper**2


@given(st.lists(st.floats(-1e150, 1e150) | st.sampled_from(EDGES[:6]), min_size=2, max_size=20))
def test_the_deviation_is_rounded_once(values):
    n, array = len(values), np.array(values)
    middle = fractions_sum(values) / n
    variance = sum((Fraction(v) - middle) ** 2 for v in values) / (n - 1)
    assert is_nearest_root(exact.std(n, exact.total(array), exact.squares(array)), variance)


def test_deviations_at_the_ends():
    def std(*values):
        array = np.array(values)
        return exact.std(len(values), exact.total(array), exact.squares(array))

    assert std(0.1, 0.1, 0.1) == 0.0
    assert std(1.0, 3.0) == math.sqrt(2)
    assert std(0.0, 5e-324) == 5e-324
    assert std(1.7e308, -1.7e308) == math.inf
    with pytest.raises(ValueError, match="two values"):
        std(0.5)


def nearest_rank(values, percent):
    return sorted(values)[max(math.ceil(Fraction(percent * len(values), 100)), 1) - 1]


@given(st.lists(st.sampled_from([0.0, -0.0, 0.25, 1 / 3, 1.0, 2.5, -1.0]) | FINITE, min_size=1, max_size=60))
def test_quantiles_are_at_the_nearest_rank(values):
    bag = exact.tally(np.array(values))
    assert [bag.quantile(p) for p in (0, 50, 95, 100)] == [nearest_rank(values, p) for p in (0, 50, 95, 100)]


@given(st.lists(st.integers(0, 30), max_size=60), st.lists(st.integers(0, 3000), max_size=60))
def test_merging_bags_adds_their_counts(a, b):
    a, b = np.array(a) / 30, np.array(b) / 3000
    for bag in (
        exact.merge(exact.tally(a), exact.tally(b)),
        exact.merge(exact.tally(b), exact.tally(a)),
        exact.add(exact.tally(a), b),
    ):
        values, counts = np.unique(np.concatenate([a, b]), return_counts=True)
        assert bag.values.tolist() == values.tolist()
        assert bag.counts.tolist() == counts.tolist()


@pytest.mark.parametrize("distinct", [2, 900, 20_000])
def test_counting_gives_the_same_for_few_and_many_distinct_values(distinct):
    values = np.random.default_rng(2).integers(0, distinct, 20_000) / distinct
    bag = exact.tally(values)
    expected = np.unique(values, return_counts=True)
    assert bag.values.tolist() == expected[0].tolist()
    assert bag.counts.tolist() == expected[1].tolist()


def test_the_sign_of_zero_is_dropped():
    for values in ([0.0, -0.0], [-0.0, 0.0], [-0.0]):
        bag = exact.tally(np.array(values))
        assert [math.copysign(1, v) for v in bag.values] == [1.0]


def same_bits(a, b):
    return (
        a.moments == b.moments and a.values.tobytes() == b.values.tobytes() and a.counts.tolist() == b.counts.tolist()
    )


@pytest.mark.parametrize(("distinct", "kept"), [(exact.DISTINCT, True), (exact.DISTINCT + 1, False)])
def test_every_value_is_kept_up_to_the_limit_however_it_was_reached(distinct, kept):
    rng = np.random.default_rng(3)
    values = np.concatenate([np.arange(distinct), np.arange(distinct // 2)]) / distinct
    bags = []
    for size in (len(values), 40_000, 7_001):
        rng.shuffle(values)
        parts = [exact.tally(values[i : i + size]) for i in range(0, len(values), size)]
        while len(parts) > 1:
            a, b = (parts.pop(rng.integers(len(parts))) for _ in range(2))
            parts.append(exact.merge(a, b))
        bags.append(parts[0])
        one_by_one = exact.EMPTY
        for i in range(0, len(values), size):
            one_by_one = exact.add(one_by_one, values[i : i + size])
        bags.append(one_by_one)
    assert all(same_bits(bags[0], bag) for bag in bags)
    assert (bags[0].moments is None) is kept
    assert (bags[0].quantile(50) == nearest_rank(values.tolist(), 50)) is kept


def test_a_histogram_keeps_sums_and_range_exact_and_quantiles_close():
    values = np.random.default_rng(4).normal(0.3, 2.0, 70_000)
    bag = exact.tally(values)
    assert bag.moments is not None
    expected = exact.total(values), exact.squares(values), values.min(), values.max()
    assert bag.exactly() == exact.Moments(70_000, *expected)
    for percent in (0, 1, 40, 50, 95, 100):
        truth = nearest_rank(values.tolist(), percent)
        assert abs(bag.quantile(percent) - truth) <= abs(truth) / 4096
        assert values.min() <= bag.quantile(percent) <= values.max()


def test_a_histogram_leaves_zero_half_and_one_alone():
    values = np.concatenate([np.random.default_rng(5).random(70_000), np.repeat([0.0, 0.5, 1.0], 100_000)])
    bag = exact.tally(values)
    assert bag.moments is not None
    assert [bag.quantile(p) for p in (5, 50, 95)] == [0.0, 0.5, 1.0]


@settings(max_examples=25)
@given(st.lists(FINITE, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_a_histogram_does_not_depend_on_the_order_of_merging(values, random):
    limit, exact.DISTINCT = exact.DISTINCT, 4
    try:
        whole = exact.tally(np.array(values))
        random.shuffle(values)
        cut = random.randint(0, len(values))
        parts = exact.tally(np.array(values[:cut])), exact.tally(np.array(values[cut:]))
        assert same_bits(whole, exact.merge(*parts))
        assert same_bits(whole, exact.merge(*reversed(parts)))
        assert same_bits(whole, exact.add(parts[0], np.array(values[cut:])))
    finally:
        exact.DISTINCT = limit
