"""`actual_output` in all its shapes, as flat columns: which documents, in which order, with which texts and scores."""

import math
from dataclasses import dataclass, field
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
from .decode import Coded, Flaw, OutputRecord, canonical_json, doc_id, json_value
from .hashing import hash_column
from .limits import DEFAULTS, Limits
from .records import Bools, Ints
from .repeats import first_occurrences
from .sieve import Sieve

ASIDE = ("error", "answer", "citations", "latency_ms", "usage", "cost")
"""Fields beside the list, at the top level or within `actual_output`; part of the content, though not scored."""


@dataclass
class Retrieved:
    """The ranked lists of n outputs, as given. A list with a flaw is empty."""

    offsets: Ints
    docs: pa.Array
    texts: pa.Array | None
    scores: pa.Array | None
    error: Bools
    """Whether the system said that it failed."""
    aside: list[pa.Array]
    """The fields beside the list, as columns to digest."""
    flaws: dict[int, Flaw] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    integers: set[int] = field(default_factory=set)
    """Lists that hold an integer for a document id."""

    def refuse_integers(self) -> None:
        """Take it for a flaw if a document id is an integer."""
        for i in self.integers:
            self.flaws.setdefault(i, Flaw("bad_output", "a retrieved id is an integer; document ids must be strings"))

    def note_scores(self) -> None:
        """Count the lists with equal scores, and those that put a lower score first. Rank is position all the same."""
        if self.scores is None:
            return
        given = self.scores.is_valid().to_numpy(zero_copy_only=False)
        lists, scores = spread(self.offsets)[given], self.scores.to_numpy(zero_copy_only=False)[given]
        within = lists[1:] == lists[:-1]
        rising = within & (scores[1:] > scores[:-1])
        ranked = scores[np.lexsort((-scores, lists))] if rising.any() else scores
        for word, where in (("tied_lists", within & (ranked[1:] == ranked[:-1])), ("rank_against_score", rising)):
            if where.any():
                self.noted[word] = len(np.unique(lists[1:][where]))

    def content(self) -> list[pa.Array]:
        """Everything that makes two outputs differ, as columns to digest.

        A list that has no text at all digests as null, whether or not its neighbours in the block have texts.
        """
        columns = [list_column(self.offsets, self.docs), pa.array(self.error)]
        for part in (self.texts, self.scores):
            if part is None:
                columns.append(pa.nulls(len(self.error)))
            else:
                rows = spread(self.offsets)[part.is_valid().to_numpy(zero_copy_only=False)]
                any_valid = pa.array(np.bincount(rows, minlength=len(self.error)) > 0)
                columns.append(pc.if_else(any_valid, list_column(self.offsets, part), pa.scalar(None)))
        return [*columns, *self.aside]


@dataclass
class Ranking:
    """What goes on of a list: documents with their ranks, at their first or at every place; those that can matter."""

    length: Ints
    """Documents in the whole list, counted as they are ranked."""
    repeats: Ints
    """How many entries repeat an earlier one."""
    docs: pa.ListArray
    ranks: pa.ListArray
    texts: pa.ListArray | None


def rank(
    retrieved: Retrieved,
    ids: pa.Array,
    depth: int | None = None,
    with_texts: bool = False,
    sieve: Sieve | None = None,
    every: bool = False,
) -> Ranking:
    """Rank the whole list without its repeats, first kept; then leave out what is too deep or cannot be judged.

    With `every`, repeats are only counted: each entry keeps the rank that the list gives it.
    """
    offsets, n = retrieved.offsets, len(retrieved.error)
    given = np.diff(offsets)
    hashes = hash_column(retrieved.docs)
    firsts = first_occurrences(offsets, retrieved.docs, hashes)
    wanted = np.ones(len(hashes), np.bool_) if firsts is None or every else firsts
    if sieve is not None:
        wanted = wanted & sieve.holds(np.repeat(hash_column(ids), given), hashes)
    entry = np.flatnonzero(wanted)
    row = np.repeat(np.arange(n), given)[entry]
    ranks = entry - offsets[row] + 1
    repeats = np.zeros(n, np.int64)
    if firsts is not None:
        dropped = np.concatenate(([0], np.cumsum(~firsts)))
        if not every:
            ranks -= dropped[entry] - dropped[offsets[row]]
        repeats = dropped[offsets[1:]] - dropped[offsets[:-1]]
    if depth is not None:
        near = ranks <= depth
        entry, row, ranks = entry[near], row[near], ranks[near]
    kept = list_offsets(np.bincount(row, minlength=n))
    whole = len(entry) == len(hashes)
    docs, texts = (
        part if part is None or whole else part.take(pa.array(entry))
        for part in (retrieved.docs, retrieved.texts if with_texts else None)
    )
    return Ranking(
        given if every else given - repeats,
        repeats,
        list_column(kept, as_strings(docs)),
        list_column(kept, pa.array(ranks, pa.int32())),
        None if texts is None else list_column(kept, as_strings(texts)),
    )


def read_retrieved(records: list[OutputRecord], flaws: dict[int, Flaw], limits: Limits = DEFAULTS) -> Retrieved:
    """Lists from decoded records; those that have a flaw already are not looked into."""
    found = dict(flaws)
    noted: dict[str, int] = {}
    integers: set[int] = set()
    lengths, error = np.zeros(len(records), np.int64), np.zeros(len(records), np.bool_)
    entries: list[_Entries] = []
    aside: list[str | None] = [None] * len(records)
    for i, record in enumerate(records):
        if i in found:
            continue
        try:
            body = _body(record, limits)
            if len(body.items) > limits.list_items:  # as JSON text it was not seen before
                raise _BadOutputError(list_too_long(limits)[1], "list_too_long")
            parts = _entries(body.items)
        except _BadOutputError as bad:
            found[i] = Flaw(bad.code, str(bad))
            continue
        error[i], aside[i] = body.failed, body.aside
        lengths[i] = len(parts.docs)
        entries.append(parts)
        for word in parts.noted:
            noted[word] = noted.get(word, 0) + 1
        if "integer_ids" in parts.noted:
            integers.add(i)
    offsets = list_offsets(lengths)
    docs = pa.array([doc for part in entries for doc in part.docs], pa.string())
    texts = _flat([part.texts for part in entries], [len(part.docs) for part in entries], pa.string())
    scores = _flat([part.scores for part in entries], [len(part.docs) for part in entries], pa.float64())
    beside = [pa.array(aside, pa.string())]
    return _without_blanks(Retrieved(offsets, docs, texts, scores, error, beside, found, noted, integers))


def read_retrieved_column(lists: pa.Array, error: Bools, aside: list[pa.Array]) -> Retrieved | None:
    """Lists from an Arrow column of strings, integers or {id, text, score}; None where it holds something else."""
    if not is_list(lists.type):
        return None
    offsets, items = list_parts(lists)
    texts = scores = None
    if pa.types.is_struct(items.type):
        names = {items.type.field(i).name: i for i in range(items.type.num_fields)}
        if "id" not in names:
            return None
        docs, fields = items.field(names["id"]), {name: items.field(i) for name, i in names.items()}
        if items.null_count:
            docs = pc.if_else(items.is_valid(), docs, pa.scalar(None, docs.type))
        texts = fields.get("text")
        texts = None if texts is None or not is_texts(texts.type) else texts
        scores = fields.get("score")
        scores = None if scores is None or not is_number(scores.type) else scores.cast(pa.float64(), safe=False)
    else:
        docs = items
    if not (is_texts(docs.type) or pa.types.is_integer(docs.type)):
        return None
    integers = pa.types.is_integer(docs.type)
    docs = as_strings(docs) if integers else docs
    flaws: dict[int, Flaw] = {}
    for i in np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False) & ~error):
        flaws[int(i)] = Flaw("bad_output", "there is no list of retrieved documents")
    if scores is not None:
        numbers = scores.to_numpy(zero_copy_only=False)
        wild = np.isinf(numbers) | (np.isnan(numbers) & scores.is_valid().to_numpy(zero_copy_only=False))
        for i in np.unique(spread(offsets)[wild]):
            flaws[int(i)] = Flaw("non_finite", "a score is NaN or infinite")
    retrieved = _without_blanks(Retrieved(offsets, docs, texts, scores, error, aside, flaws))
    if integers and len(retrieved.docs):
        retrieved.integers = set(np.flatnonzero(np.diff(retrieved.offsets)).tolist())
        retrieved.noted["integer_ids"] = len(retrieved.integers)
    return retrieved


def _without_blanks(retrieved: Retrieved) -> Retrieved:
    """A blank document id spoils its list; spoilt lists are emptied, so that no later step reads half of one."""
    rows = spread(retrieved.offsets)
    for i in np.unique(rows[blank_items(retrieved.docs)]):
        retrieved.flaws.setdefault(int(i), Flaw("bad_output", "a retrieved entry has a blank document id"))
    flawed = np.zeros(len(retrieved.error), np.bool_)
    flawed[list(retrieved.flaws)] = True
    retrieved.error = retrieved.error & ~flawed
    keep = ~flawed[rows]
    if not keep.all():
        mask = pa.array(keep)
        retrieved.offsets = list_offsets(np.where(flawed, 0, np.diff(retrieved.offsets)))
        retrieved.docs = retrieved.docs.filter(mask)
        retrieved.texts = None if retrieved.texts is None else retrieved.texts.filter(mask)
        retrieved.scores = None if retrieved.scores is None else retrieved.scores.filter(mask)
    return retrieved


class _BadOutputError(Exception):
    def __init__(self, message: str, code: str = "bad_output") -> None:
        super().__init__(message)
        self.code = code


@dataclass
class _Entries:
    docs: list[str]
    texts: list[str | None] | None = None
    scores: list[float | None] | None = None
    noted: set[str] = field(default_factory=set)


@dataclass
class _Body:
    items: list[Any] | tuple[Any, ...]
    failed: bool
    aside: str | None


def _body(record: OutputRecord, limits: Limits) -> _Body:
    """The list itself, whichever way it was wrapped, whether an error was reported, and what else there is."""
    given = record.actualOutput if record.actual_output is None else record.actual_output
    within: dict[str, Any] = {}
    items: Any = None
    reason = "there is no list of retrieved documents"
    try:
        body = _decoded(given, "actual_output", limits)
        if isinstance(body, dict):
            within = body
            items = _decoded(body.get("retrieved", None if body else []), "`retrieved`", limits)
            reason = reason if "retrieved" in body else "actual_output has no `retrieved`"
        else:
            items = _decoded(record.retrieved, "`retrieved`", limits) if body is None else body
    except _BadOutputError:
        # A system that failed may say anything in place of a list.
        if not (_is_set(record.error) or _is_set(within.get("error"))):
            raise
    beside = [getattr(record, name) for name in ASIDE]
    beside = [within.get(name) if value is None else value for name, value in zip(ASIDE, beside, strict=True)]
    failed = _is_set(beside[0])
    if not isinstance(items, (list, tuple)):
        if not failed:
            raise _BadOutputError(reason)
        beside.append(given if items is None else items)
        items = []
    aside = canonical_json(beside) if any(value is not None for value in beside) else None
    return _Body(items, failed, aside)


def _decoded(value: Any, name: str, limits: Limits) -> Any:
    """A value that may have come as JSON text, even twice over."""
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json_value(value, limits)
        except Coded as error:
            raise _BadOutputError(str(error), error.code) from None
        except ValueError:
            raise _BadOutputError(f"{name} is text that is not JSON") from None
    return value


def _is_set(error: Any) -> bool:
    """Whether an `error` field says that there was one; data frames say NaN for a field that is not there."""
    if isinstance(error, (bool, np.bool_, str)):
        return bool(error)
    return error is not None and not (isinstance(error, float) and math.isnan(error))


def _entries(items: list[Any] | tuple[Any, ...]) -> _Entries:
    if set(map(type, items)) == {str} and all(map(str.isascii, items)):
        return _Entries(list(items))
    parts = _Entries([], [], [])
    assert parts.texts is not None and parts.scores is not None  # noqa: S101 - for the type checker
    for item in items:
        text = score = None
        if isinstance(item, dict):
            if "id" not in item:
                raise _BadOutputError("a retrieved entry has no id")
            text, score = item.get("text"), _score(item.get("score"))
            item = item["id"]
        try:
            parts.docs.append(doc_id(item, parts.noted))
        except ValueError as error:
            raise _BadOutputError(f"`retrieved` holds {error}") from None
        parts.texts.append(_text(text))
        parts.scores.append(score)
    return parts


def _text(text: Any) -> str | None:
    """A text that is no string counts as none; one that is not valid Unicode keeps all but the bad parts."""
    if not isinstance(text, str):
        return None
    return text if text.isascii() else text.encode(errors="replace").decode()


def _score(score: Any) -> float | None:
    if isinstance(score, bool) or not isinstance(score, (int, float, np.integer, np.floating)):
        return None
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _BadOutputError("a score is NaN or infinite", "non_finite")
    return number


def _flat(parts: list[Any], lengths: list[int], kind: pa.DataType) -> pa.Array | None:
    """One flat column of a part that only some lists have; None where none has any."""
    if all(part is None or all(value is None for value in part) for part in parts):
        return None
    flat: list[Any] = []
    for part, length in zip(parts, lengths, strict=True):
        flat += [None] * length if part is None else part
    return pa.array(flat, kind)
