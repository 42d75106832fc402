"""`expected_output` in all its shapes, as flat columns: which documents, worth how much, in which group."""

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .bounds import list_too_long
from .columns import (
    as_strings,
    blank_items,
    is_list,
    is_number,
    is_texts,
    list_column,
    list_offsets,
    list_parts,
    spread,
)
from .decode import Coded, Flaw, doc_id, json_value
from .hashing import hash_column
from .limits import DEFAULTS, Limits
from .records import Bools, Floats, Ints
from .repeats import first_occurrences


class Kind(IntEnum):
    """The shape that a sample's gold came in."""

    NONE = 0
    IDS = 1
    GRADED = 2
    GROUPS = 3
    TEXT = 4


@dataclass
class Gold:
    """The gold of n samples. A sample with a flaw has no documents."""

    kind: Ints
    offsets: Ints
    docs: pa.Array
    gains: Floats
    group: Ints
    """Flat; the number of a document's group within its sample. Only GROUPS read it."""
    span: pa.StringArray
    """The plain string that TEXT gold is; null otherwise."""
    parts: Ints
    """How many documents or groups there are as given, empty groups and repeats counted."""
    listed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """How many documents there are as given, repeats counted."""
    integers: set[int] = field(default_factory=set)
    """Samples that list an integer for a document id. (The keys of a map are no list.)"""
    flaws: dict[int, Flaw] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    content: list[pa.Array] = field(default_factory=list)
    """Everything that makes two golds differ, as columns to digest, from before anything was taken out."""

    def columns(self) -> dict[str, pa.Array]:
        """As block columns: gains only where they are graded, groups only where there are any."""
        graded = pa.array(self.kind == Kind.GRADED)
        grouped = pa.array(self.kind == Kind.GROUPS)
        docs = list_column(self.offsets, as_strings(self.docs))
        nothing = pa.scalar(None)
        return {
            "kind": pa.array(self.kind, pa.int8()),
            "docs": docs,
            "gains": pc.if_else(graded, list_column(self.offsets, pa.array(self.gains)), nothing),
            "groups": pc.if_else(grouped, list_column(self.offsets, pa.array(self.group, pa.int32())), nothing),
        }

    def refuse_loose(self) -> None:
        """What some system does not take for a gold: nothing at all, groups, and ids that are integers."""
        empty = np.isin(self.kind, (Kind.IDS, Kind.GRADED)) & (self.parts == 0)
        for message, samples in (
            ("expected_output must list at least one document id", np.flatnonzero(empty)),
            (
                "expected_output must list ids or map them to gains, not groups",
                np.flatnonzero(self.kind == Kind.GROUPS),
            ),
            ("expected_output lists an integer; document ids must be strings", self.integers),
        ):
            for i in samples:
                self.flaws.setdefault(int(i), Flaw("bad_gold", message))

    def empty_hollow(self) -> None:
        """Take all documents out of a gold that has a group without members."""
        rows = spread(self.offsets)
        width = int(self.group.max(initial=0)) + 1
        members = np.bincount(np.unique(rows * width + self.group) // width, minlength=len(self.kind))
        hollow = (self.kind == Kind.GROUPS) & (members < self.parts)
        if hollow.any():
            self._keep(~hollow[rows])

    def _keep(self, keep: Bools) -> None:
        self.offsets = list_offsets(np.bincount(spread(self.offsets)[keep], minlength=len(self.kind)))
        self.docs = self.docs.filter(pa.array(keep))
        self.gains, self.group = self.gains[keep], self.group[keep]


def read_gold(values: list[Any], limits: Limits = DEFAULTS) -> Gold:
    """Gold from Python values, one a sample."""
    flaws: dict[int, Flaw] = {}
    noted: dict[str, int] = {}
    integers: set[int] = set()
    kinds, lengths, parts = np.zeros((3, len(values)), np.int64)
    spans: list[str | None] = [None] * len(values)
    docs: list[str] = []
    gains: list[float] = []
    groups: list[int] = []
    for i, value in enumerate(values):
        try:
            shape = _shape(value, limits)
        except _BadGoldError as bad:
            flaws[i] = Flaw(bad.code, str(bad))
            continue
        kinds[i], spans[i] = shape.kind, shape.span
        lengths[i] = len(shape.docs)
        parts[i] = shape.parts
        docs += shape.docs
        gains += shape.gains or [1.0] * len(shape.docs)
        groups += shape.groups or [0] * len(shape.docs)
        for word in shape.noted:
            noted[word] = noted.get(word, 0) + 1
        if shape.kind != Kind.GRADED and "integer_ids" in shape.noted:
            integers.add(i)
    gold = Gold(
        kinds,
        list_offsets(lengths),
        pa.array(docs, pa.string()),
        np.array(gains, np.float64),
        np.array(groups, np.int64),
        pa.array(spans, pa.string()),
        parts,
        integers=integers,
        flaws=flaws,
        noted=noted,
    )
    return _tidy(gold)


def read_gold_column(column: pa.Array, limits: Limits = DEFAULTS) -> Gold:
    """Gold from an Arrow column: lists, maps and lists of lists stay columnar, the rest goes value by value."""
    item = getattr(column.type, "value_type", None) if is_list(column.type) else None
    if item is not None and (is_texts(item) or pa.types.is_integer(item)):
        offsets, docs = list_parts(column)
        return _from_column(column, Kind.IDS, offsets, docs, np.diff(offsets))
    if pa.types.is_map(column.type) and is_texts(column.type.key_type) and is_number(column.type.item_type):
        offsets, pairs = list_parts(column)
        return _from_column(column, Kind.GRADED, offsets, pairs.field(0), np.diff(offsets), gains=pairs.field(1))
    if item is not None and is_list(item) and (is_texts(item.value_type) or pa.types.is_integer(item.value_type)):
        outer, inner = list_parts(column)
        starts, docs = list_parts(inner)
        group = np.repeat(np.arange(len(inner)) - np.repeat(outer[:-1], np.diff(outer)), np.diff(starts))
        gold = _from_column(column, Kind.GROUPS, starts[outer], docs, np.diff(outer), group=group)
        for i in np.unique(spread(outer)[inner.is_null().to_numpy(zero_copy_only=False)]):
            gold.flaws.setdefault(int(i), Flaw("bad_gold", "expected_output holds a null where a group belongs"))
        return gold
    values = column.to_pylist()
    if pa.types.is_struct(column.type):
        # A map that some writer inferred as a struct: every sample then has every other sample's keys, as nulls.
        values = [v if v is None else {k: g for k, g in v.items() if g is not None} for v in values]
    elif pa.types.is_map(column.type):
        values = [v if v is None else dict(v) for v in values]
    return read_gold(values, limits)


def _from_column(
    column: pa.Array,
    kind: Kind,
    offsets: Ints,
    docs: pa.Array,
    parts: Ints,
    gains: pa.Array | None = None,
    group: Ints | None = None,
) -> Gold:
    n, items = len(column), len(docs)
    absent = column.is_null().to_numpy(zero_copy_only=False)
    weights = np.ones(items)
    flaws: dict[int, Flaw] = {}
    if gains is not None:
        weights = pc.cast(gains, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        for i in np.unique(spread(offsets)[gains.is_null().to_numpy(zero_copy_only=False)]):
            flaws[int(i)] = Flaw("bad_gold", "a gain is null")
        for i in np.unique(spread(offsets)[~np.isfinite(weights)]):
            flaws.setdefault(int(i), Flaw("non_finite", "a gain is NaN or infinite"))
    gold = Gold(
        np.where(absent, Kind.NONE, kind),
        offsets,
        as_strings(docs) if pa.types.is_integer(docs.type) else docs,
        weights,
        np.zeros(items, np.int64) if group is None else group,
        pa.nulls(n, pa.string()),
        parts,
        flaws=flaws,
    )
    gold = _tidy(gold)
    if pa.types.is_integer(docs.type) and len(gold.docs):
        gold.integers = set(np.flatnonzero(np.diff(gold.offsets)).tolist())
        gold.noted["integer_ids"] = len(gold.integers)
    return gold


def _tidy(gold: Gold) -> Gold:
    """Refuse blank ids, empty the golds that have a flaw, and take repeats out of lists that are not grouped."""
    rows = spread(gold.offsets)
    gold.listed = np.diff(gold.offsets)
    hashes = hash_column(gold.docs)
    graded = gold.kind == Kind.GRADED
    if graded.any():
        # The keys of a map have no order of their own, so give them one: equal maps are then equal content.
        order = np.lexsort((np.where(graded[rows], hashes, np.uint64(0)), rows))
        hashes, gold.docs = hashes[order], gold.docs.take(pa.array(order))
        gold.gains, gold.group = gold.gains[order], gold.group[order]
    gold.content = [*gold.columns().values(), gold.span, pa.array(gold.parts)]
    for i in np.unique(rows[blank_items(gold.docs)]):
        gold.flaws.setdefault(int(i), Flaw("bad_gold", "expected_output holds a blank document id"))
    keep = np.ones(len(gold.docs), np.bool_)
    firsts = first_occurrences(gold.offsets, gold.docs, hashes)
    if firsts is not None:
        keep = firsts | (gold.kind == Kind.GROUPS)[rows]
        for i in np.unique(rows[~firsts & graded[rows]]):
            gold.flaws.setdefault(int(i), Flaw("bad_gold", "expected_output grades one document twice"))
    if gold.flaws:
        flawed = np.zeros(len(gold.kind), np.bool_)
        flawed[list(gold.flaws)] = True
        keep &= ~flawed[rows]
        gold.kind[flawed] = Kind.NONE
    if not keep.all():
        gold._keep(keep)
    return gold


class _BadGoldError(Exception):
    def __init__(self, message: str, code: str = "bad_gold") -> None:
        super().__init__(message)
        self.code = code


@dataclass
class _Shape:
    kind: Kind
    docs: list[str]
    parts: int = 0
    gains: list[float] | None = None
    groups: list[int] | None = None
    span: str | None = None
    noted: set[str] = field(default_factory=set)


def _shape(value: Any, limits: Limits) -> _Shape:
    if isinstance(value, str):
        return _shape_of_text(value, limits)
    if value is None:
        return _Shape(Kind.NONE, [])
    if isinstance(value, dict):
        return _shape_of_map(value)
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, (list, tuple)) for item in value):
            return _shape_of_groups(value)
        noted: set[str] = set()
        return _Shape(Kind.IDS, [_doc_id(item, noted) for item in value], len(value), noted=noted)
    raise _BadGoldError(f"expected_output is a {type(value).__name__}, not a list, a map or a string")


def _shape_of_text(text: str, limits: Limits) -> _Shape:
    """JSON of the other shapes, or else the expected answer itself."""
    if text.lstrip()[:1] in ("[", "{"):
        try:
            value = json_value(text, limits)
        except Coded as error:
            raise _BadGoldError(str(error), error.code) from None
        except ValueError:
            pass
        else:
            if isinstance(value, (list, dict)) and _longest(value) > limits.list_items:
                raise _BadGoldError(list_too_long(limits)[1], "list_too_long")
            return _shape(value, limits)
    return _Shape(Kind.TEXT, [], span=text if text.isascii() else text.encode(errors="replace").decode())


def _longest(value: list[Any] | dict[Any, Any]) -> int:
    return max(len(value), max((len(item) for item in value if isinstance(item, list)), default=0))


def _shape_of_map(value: dict[Any, Any]) -> _Shape:
    noted: set[str] = set()
    docs = [_doc_id(doc, noted) for doc in value]
    return _Shape(Kind.GRADED, docs, len(docs), gains=[_gain(gain, noted) for gain in value.values()], noted=noted)


def _shape_of_groups(value: list[Any] | tuple[Any, ...]) -> _Shape:
    noted: set[str] = set()
    docs: list[str] = []
    groups: list[int] = []
    for number, group in enumerate(value):
        if not isinstance(group, (list, tuple)):
            raise _BadGoldError("expected_output mixes groups and single ids; make every item a list")
        docs += [_doc_id(item, noted) for item in group]
        groups += [number] * len(group)
    return _Shape(Kind.GROUPS, docs, len(value), groups=groups, noted=noted)


def _doc_id(item: Any, noted: set[str]) -> str:
    try:
        return doc_id(item, noted)
    except ValueError as error:
        raise _BadGoldError(f"expected_output holds {error}") from None


def _gain(gain: Any, noted: set[str]) -> float:
    if isinstance(gain, str):
        try:
            number = float("" if "_" in gain else gain)  # 1_000 is a number in Python alone
        except ValueError:
            raise _BadGoldError("expected_output holds a gain that is no number") from None
        noted.add("numeric_string_gains")
    elif isinstance(gain, (int, float, np.integer, np.floating)) and not isinstance(gain, bool):
        try:
            number = float(gain)
        except OverflowError:
            number = math.inf
    else:
        raise _BadGoldError(f"expected_output holds a gain of type {type(gain).__name__}")
    if not math.isfinite(number):
        raise _BadGoldError("a gain is NaN or infinite", "non_finite")
    return number
