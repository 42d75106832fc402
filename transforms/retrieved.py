"""`actual_output` in all its shapes, as flat columns: which documents, in which order, with which texts and scores."""

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import as_strings, blank_items, is_list, is_number, is_texts, list_column, list_offsets, spread
from .decode import Flaw, OutputRecord, doc_id
from .hashing import hash_column, list_parts
from .records import Bools, Ints
from .repeats import first_occurrences


@dataclass
class Retrieved:
    """The ranked lists of n outputs, as given. A list with a flaw is empty."""

    offsets: Ints
    docs: pa.Array
    texts: pa.Array | None
    scores: pa.Array | None
    error: Bools
    """Whether the system said that it failed."""
    flaws: dict[int, Flaw] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)

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
        return columns


@dataclass
class Ranking:
    """What the standard reads of a list: each document at its first rank, no deeper than asked."""

    length: Ints
    """Documents in the whole list, repeats not counted."""
    repeats: Ints
    """How many entries repeat an earlier one."""
    docs: pa.ListArray
    texts: pa.ListArray | None


def rank(retrieved: Retrieved, depth: int | None, with_texts: bool) -> Ranking:
    """Take out repeats, first kept, on the full list; then cut to the depth."""
    offsets, n = retrieved.offsets, len(retrieved.error)
    rows = spread(offsets)
    keep = first_occurrences(offsets, retrieved.docs, hash_column(retrieved.docs))
    given = np.diff(offsets)
    length = given if keep is None else np.bincount(rows[keep], minlength=n)
    if depth is not None and (length > depth).any():
        if keep is None:
            keep = np.ones(len(rows), np.bool_)
        position = np.cumsum(keep) - np.repeat(np.concatenate(([0], np.cumsum(length)))[:-1], given)
        keep = keep & (position <= depth)
    docs, texts = retrieved.docs, retrieved.texts if with_texts else None
    if keep is not None:
        offsets = list_offsets(np.bincount(rows[keep], minlength=n))
        docs = docs.filter(pa.array(keep))
        texts = None if texts is None else texts.filter(pa.array(keep))
    return Ranking(
        length,
        given - length,
        list_column(offsets, as_strings(docs)),
        None if texts is None else list_column(offsets, as_strings(texts)),
    )


def read_retrieved(records: list[OutputRecord], flaws: dict[int, Flaw]) -> Retrieved:
    """Lists from decoded records; those that have a flaw already are not looked into."""
    found = dict(flaws)
    noted: dict[str, int] = {}
    lengths, error = np.zeros(len(records), np.int64), np.zeros(len(records), np.bool_)
    entries: list[_Entries] = []
    for i, record in enumerate(records):
        if i in found:
            continue
        try:
            body, failed = _body(record)
            error[i] = failed
            parts = _entries(body)
        except _BadOutputError as bad:
            found[i] = Flaw(bad.code, str(bad))
            error[i] = False
            continue
        lengths[i] = len(parts.docs)
        entries.append(parts)
        for word in parts.noted:
            noted[word] = noted.get(word, 0) + 1
    offsets = list_offsets(lengths)
    docs = pa.array([doc for part in entries for doc in part.docs], pa.string())
    texts = _flat([part.texts for part in entries], [len(part.docs) for part in entries], pa.string())
    scores = _flat([part.scores for part in entries], [len(part.docs) for part in entries], pa.float64())
    return _without_blanks(Retrieved(offsets, docs, texts, scores, error, found, noted))


def read_retrieved_column(lists: pa.Array, error: Bools) -> Retrieved | None:
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
        scores = None if scores is None or not is_number(scores.type) else scores.cast(pa.float64())
    else:
        docs = items
    if not (is_texts(docs.type) or pa.types.is_integer(docs.type)):
        return None
    noted = {"integer_ids": len(docs)} if pa.types.is_integer(docs.type) and len(docs) else {}
    docs = as_strings(docs) if pa.types.is_integer(docs.type) else docs
    flaws: dict[int, Flaw] = {}
    for i in np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False) & ~error):
        flaws[int(i)] = Flaw("bad_output", "there is no list of retrieved documents")
    if scores is not None:
        numbers = scores.to_numpy(zero_copy_only=False)
        wild = np.isinf(numbers) | (np.isnan(numbers) & scores.is_valid().to_numpy(zero_copy_only=False))
        for i in np.unique(spread(offsets)[wild]):
            flaws[int(i)] = Flaw("non_finite", "a score is NaN or infinite")
    return _without_blanks(Retrieved(offsets, docs, texts, scores, error, flaws, noted))


def _without_blanks(retrieved: Retrieved) -> Retrieved:
    """A blank document id spoils its list; spoilt lists are emptied, so that no later step reads half of one."""
    rows = spread(retrieved.offsets)
    for i in np.unique(rows[blank_items(retrieved.docs)]):
        retrieved.flaws.setdefault(int(i), Flaw("bad_output", "a retrieved entry has a blank document id"))
    flawed = np.zeros(len(retrieved.error), np.bool_)
    flawed[list(retrieved.flaws)] = True
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


def _body(record: OutputRecord) -> tuple[Any, bool]:
    """The list itself, whichever way it was wrapped, and whether an error was reported."""
    body = record.actual_output
    body = record.actualOutput if body is None else body
    error = record.error
    if isinstance(body, str):
        try:
            body = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            if _is_set(error):
                return [], True
            raise _BadOutputError("actual_output is text that is not JSON") from None
    if body is None:
        body = record.retrieved
    elif isinstance(body, dict):
        error = body.get("error") if error is None else error
        if body and "retrieved" not in body and not _is_set(error):
            raise _BadOutputError("actual_output has no `retrieved`")
        body = body.get("retrieved", [])
        if isinstance(body, str):
            body = _decoded(body)
    if _is_set(error):
        return body if isinstance(body, (list, tuple)) else [], True
    if isinstance(body, str):
        body = _decoded(body)
    if not isinstance(body, (list, tuple)):
        raise _BadOutputError("there is no list of retrieved documents")
    return body, False


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise _BadOutputError("`retrieved` is text that is not JSON") from None


def _is_set(error: Any) -> bool:
    return error is not None and error is not False and error != ""


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
