"""Hashes of texts, and digests of whole records."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.digest import digest_columns
from transforms.hashing import bucket_of, hash_column
from transforms.layouts import plain

TEXTS = ["", "a", "doc-1", "doc-12", "exactly8", "nine char", "é", "\0", "x" * 64, "x" * 65, "y" * 1000, None]

TEXT_LAYOUTS = [
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint64(), pa.large_string()),
]

LIST_LAYOUTS = [
    pa.large_list(pa.string()),
    pa.list_view(pa.string()),
    pa.large_list_view(pa.string()),
    pa.list_(pa.large_string()),
    pa.list_(pa.string_view()),
    pa.list_view(pa.binary_view()),
    pa.list_(pa.dictionary(pa.int16(), pa.string())),
    pa.large_list(pa.dictionary(pa.uint8(), pa.large_string())),
]


def digests(*columns: pa.Array) -> list[tuple[int, int]]:
    high, low = digest_columns([plain(column)[0] for column in columns])
    return list(zip(high.tolist(), low.tolist(), strict=True))


def in_layout(values: list[object], kind: pa.DataType) -> pa.Array:
    """Through bytes where the layout holds bytes."""
    return pa.array(encoded(values) if "binary" in str(kind) else values, kind)


def encoded(value: object) -> object:
    if isinstance(value, list):
        return [encoded(item) for item in value]
    return value.encode() if isinstance(value, str) else value


def test_hashes_are_the_same_in_every_release() -> None:
    """A change of any of these moves ids between buckets and must come with a new major version."""
    hashes = hash_column(pa.array(["", "doc-1", "a text of more than eight bytes", "x" * 100, None]))
    assert hashes.tolist() == [
        14241680564955034166,
        16928640435011828269,
        5886040722189379412,
        5206050988663846045,
        2819827953900377249,
    ]


def test_digests_are_the_same_in_every_release() -> None:
    lists = pa.array([["a", "b"], [], None])
    assert digests(lists, pa.array([1.0, None, 3.0])) == [
        (8479216819681996110, 7615676217292374364),
        (6644292508818463060, 3978715566935519621),
        (2996416480648072602, 4768873053003685932),
    ]


@pytest.mark.parametrize("kind", TEXT_LAYOUTS, ids=str)
def test_a_text_hashes_alike_in_every_layout(kind: pa.DataType) -> None:
    expected = hash_column(pa.array(TEXTS)).tolist()
    column = in_layout(TEXTS, kind)
    assert hash_column(column).tolist() == expected
    assert hash_column(column.slice(3, 5)).tolist() == expected[3:8]
    assert digests(column) == digests(pa.array(TEXTS))


def test_a_dictionary_may_hold_nulls_and_values_twice() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), pa.array(["a", None, "a"]))
    assert hash_column(column).tolist() == hash_column(pa.array(["a", None, "a", None])).tolist()
    empty = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.string()))
    assert hash_column(empty).tolist() == hash_column(pa.array([None], pa.string())).tolist()


@given(st.lists(st.one_of(st.none(), st.text(max_size=90)), max_size=40), st.data())
def test_a_text_hashes_alike_whatever_lies_beside_it(texts: list[str | None], data: st.DataObject) -> None:
    whole = hash_column(pa.array(texts, pa.string())).tolist()
    alone = [hash_column(pa.array([text], pa.string()))[0] for text in texts]
    start = data.draw(st.integers(0, len(texts)))
    assert whole == alone
    assert hash_column(pa.array(texts, pa.string()).slice(start)).tolist() == alone[start:]


@given(st.lists(st.text(max_size=40), unique=True, max_size=200))
def test_different_texts_hash_differently(texts: list[str]) -> None:
    assert len(set(hash_column(pa.array(texts, pa.string())).tolist())) == len(texts)


@pytest.mark.parametrize("buckets", [1, 2, 3, 64, 4096])
def test_ids_spread_over_all_buckets(buckets: int) -> None:
    found = bucket_of(pa.array([f"q-{i}" for i in range(50_000)]), buckets)
    assert set(found.tolist()) == set(range(buckets))
    assert max(found.tolist().count(bucket) for bucket in range(min(buckets, 5))) < 3 * 50_000 / buckets + 20


@pytest.mark.parametrize("kind", LIST_LAYOUTS, ids=str)
def test_a_list_has_one_digest_in_every_layout(kind: pa.DataType) -> None:
    lists = [["a", "b"], [], None, ["ab"], ["", "x" * 70], ["é"]]
    expected = digests(pa.array(lists))
    assert digests(in_layout(lists, kind)) == expected
    assert digests(in_layout(lists, kind).slice(2, 3)) == expected[2:5]


def test_a_list_of_fixed_size_has_the_digest_of_any_list() -> None:
    lists = [["a", "b"], None, ["c", "d"]]
    assert digests(pa.array(lists, pa.list_(pa.string(), 2))) == digests(pa.array(lists))
    assert digests(pa.array(lists, pa.list_(pa.string(), 2)).slice(1)) == digests(pa.array(lists))[1:]


def test_views_may_lie_in_any_order() -> None:
    column = pa.ListViewArray.from_arrays([2, 0, 1], [1, 2, 0], pa.array(["a", "b", "c"]))
    assert digests(column) == digests(pa.array([["c"], ["a", "b"], []]))


DIFFERENT = [
    [["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], ["", "a", "b"], ["a", None, "b"], ["a"], [None], [], None],
    [1, 2, 0, -1, 2**53, 2**53 + 1, 2**62, 2**62 + 1, None],
    [[1.0, 2.0], [2.0, 1.0], [1.0], [], None],
    ["", " ", "null", None],
    [{"k": 1}, {"k": 2}, {"tags": ["a"]}, {"tags": ["a", "b"]}, {"k": 1, "tags": ["a"]}, {}, None],
    [[["a"], ["b"]], [["a", "b"]], [["a"], [], ["b"]], [[], ["a"]], [["a"]], []],
]


@pytest.mark.parametrize("values", DIFFERENT, ids=str)
def test_different_content_has_different_digests(values: list[object]) -> None:
    column = pa.array(values)
    assert len(set(digests(column))) == len(values)
    assert [digests(pa.array([value], column.type))[0] for value in values] == digests(column)


def test_equal_numbers_have_one_digest() -> None:
    expected = digests(pa.array([1, 0]))
    for column in (pa.array([1.0, -0.0]), pa.array([1, 0], pa.uint8()), pa.array([1, 0], pa.float16())):
        assert digests(column) == expected


def test_a_field_that_is_null_is_a_field_that_is_not_there() -> None:
    """Two files of one run may have structs of different fields."""
    narrow = pa.array([{"k": 5}])
    wide = pa.array([{"lang": None, "k": 5}], pa.struct([("lang", pa.string()), ("k", pa.int8())]))
    assert digests(narrow) == digests(wide)


def test_columns_do_not_run_into_each_other() -> None:
    a, b, nothing = pa.array(["a"]), pa.array(["b"]), pa.nulls(1)
    found = [digests(a, b), digests(b, a), digests(pa.array(["ab"]), nothing), digests(nothing, pa.array(["ab"]))]
    assert len({digest for (digest,) in found}) == 4


def test_near_texts_do_not_share_a_digest() -> None:
    """Texts of two words whose differences cancel out in many a simple hash."""
    pairs = [(f"id-{i:04}1{i:03}a{i:03}0", f"id-{i:04}2{i:03}s{i:03}9") for i in range(1000)]
    left, right = (digests(pa.array(list(side))) for side in zip(*pairs, strict=True))
    assert not set(left) & set(right)


@pytest.mark.parametrize("rows", [0, 1])
def test_columns_without_rows_have_no_digests(rows: int) -> None:
    for kind in (pa.string(), pa.list_(pa.string()), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())):
        assert len(digests(pa.nulls(rows, kind))) == rows
