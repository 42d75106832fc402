"""Repeats within lists, against the slow and obvious way."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.columns import list_offsets
from transforms.hashing import hash_column
from transforms.repeats import first_occurrences

Lists = list[list[str]]
LISTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "é", "a "]) | st.text(max_size=3), max_size=20), max_size=9
)


def slowly(lists: Lists) -> list[bool]:
    return [item not in items[:i] for items in lists for i, item in enumerate(items)]


def found(lists: Lists, items: pa.Array, hashes: np.ndarray) -> list[bool]:
    firsts = first_occurrences(list_offsets([len(each) for each in lists]), items, hashes)
    if firsts is None:
        return [True] * len(items)
    assert not firsts.all()
    return firsts.tolist()


@given(LISTS)
def test_the_first_of_each_value_in_each_list_is_kept(lists: Lists) -> None:
    items = pa.array([item for each in lists for item in each], pa.string())
    assert found(lists, items, hash_column(items)) == slowly(lists)
    encoded = items.dictionary_encode()
    assert found(lists, encoded, hash_column(encoded)) == slowly(lists)


@given(LISTS, st.integers(1, 4))
def test_equal_hashes_do_not_make_a_repeat(lists: Lists, distinct: int) -> None:
    items = pa.array([item for each in lists for item in each], pa.string())
    poor = (hash_column(items) % np.uint64(distinct)) << np.uint64(40)
    assert found(lists, items, poor) == slowly(lists)


def test_a_dictionary_that_holds_a_value_twice_hides_no_repeat() -> None:
    items = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1]), pa.array(["a", "b", "a"]))
    assert found([["a", "a", "b"]], items, hash_column(items)) == [True, False, True]


@pytest.mark.parametrize("length", [2, 3, 4, 5, 1023, 1024, 1025, 50_000])
def test_lists_of_any_length_are_looked_through(length: int) -> None:
    clean = [f"doc-{i}" for i in range(length)]
    lists = [clean, [*clean[:-1], clean[0]], clean, []]
    items = pa.array([item for each in lists for item in each])
    assert (
        found(lists, items, hash_column(items)) == [True] * length + [True] * (length - 1) + [False] + [True] * length
    )


def test_nothing_repeats_where_there_is_nothing() -> None:
    items = pa.array([], pa.string())
    assert first_occurrences(list_offsets([]), items, hash_column(items)) is None
    assert first_occurrences(list_offsets([0, 0]), items, hash_column(items)) is None
