"""One JSON object, {query: {document: number}}: gains, as samples, or scores, as outputs.

Every query is whole, so it is a record like any other; its number is its place in the file. A query named twice breaks
the file: JSON readers would let the last one win, and a record would be gone unseen.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from transforms.columns import list_offsets
from transforms.limits import MIB, BrokenInput, Limits
from transforms.order import Queries
from transforms.records import Refused, Rows

from .bytestream import chunks
from .jsonl import PREVIEW_BYTES, without_bom

LARGEST_FILE = 256 * MIB
_BLOCK_ENTRIES = 1 << 20
_KEY = re.compile(rb'\s*[{,]\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*', re.DOTALL)
_EXPECTED = "expected one JSON object, {query: {document: number}}"
_NUMBERS = msgspec.json.Decoder(dict[str, float])

Found = Queries | Rows | Refused


def peek(path: str) -> None:
    """An object starts with a brace. So do JSON lines; those are told apart when the file is read."""
    with closing(chunks(path, Limits())) as pieces:
        head = next(without_bom(pieces), b"").lstrip()
    if head and not head.startswith(b"{"):
        raise BrokenInput(path, f"{_EXPECTED}; it starts with {head[:1].decode(errors='replace')!r}")


def read_qrels(path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None) -> Iterator[Found]:
    return _read(path, limits, block_rows, _odd_gold)


def read_run(path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None) -> Iterator[Found]:
    """In no order: the scores are to give it."""
    return _read(path, limits, block_rows, _odd_list)


def _read(path: str, limits: Limits, block_rows: int, odd: Callable[[Any], dict[str, Any]]) -> Iterator[Found]:
    numbers: list[int] = []
    ids: list[str] = []
    maps: list[dict[str, float]] = []
    entries = 0
    for number, (query, text) in enumerate(_queries(path, limits), 1):
        try:
            found = _NUMBERS.decode(text)
            "".join((query, *found)).encode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            yield _record(number, query, bytes(text), odd)
            continue
        numbers.append(number)
        ids.append(query)
        maps.append(found)
        entries += len(found)
        if len(ids) >= block_rows or entries >= _BLOCK_ENTRIES:
            yield _block(numbers, ids, maps)
            numbers, ids, maps, entries = [], [], [], 0
    if ids:
        yield _block(numbers, ids, maps)


def _queries(path: str, limits: Limits) -> list[tuple[str, Any]]:
    """The queries of the file in its order, each with the text of its value."""
    body = _body(path, limits)
    if not body.strip():
        return []
    try:
        held = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return _leniently(path, body, error)
    _check_keys(path, body, held)
    _check_shape(path, [bytes(memoryview(text)[:1]) for text in held.values()])
    return list(held.items())


def _body(path: str, limits: Limits) -> bytes:
    parts: list[bytes] = []
    size = 0
    with closing(chunks(path, limits)) as pieces:
        for piece in without_bom(pieces):
            parts.append(piece)
            size += len(piece)
            if size > LARGEST_FILE:
                raise BrokenInput(path, f"has more than {LARGEST_FILE >> 20} MiB of JSON; use JSONL, Parquet or TREC")
    return b"".join(parts)


def _check_keys(path: str, body: bytes, held: dict[str, msgspec.Raw]) -> None:
    """Between two values there is room for one key. More is a query whose earlier value was lost to a later one."""
    start = _address(body)
    end = 0
    for at, size in sorted((_address(text) - start, len(memoryview(text))) for text in held.values()):
        if not _KEY.fullmatch(body, end, at):
            twice = _KEY.match(body, end)
            name = twice.group(1).decode(errors="replace")[:80] if twice else "a query"
            raise BrokenInput(path, f"names {name} twice; give each query once")
        end = at + size


def _address(data: Any) -> int:
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address


def _check_shape(path: str, first_bytes: list[bytes]) -> None:
    if first_bytes and b"{" not in first_bytes:
        raise BrokenInput(path, f"{_EXPECTED}; not one of its values is an object")


def _leniently(path: str, body: bytes, error: Exception) -> list[tuple[str, Any]]:
    """Python's reader takes NaN and Infinity: those cost their queries. Anything else breaks the file."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        held = dict(pairs)
        if len(held) < len(pairs):
            raise ValueError("a key stands twice in one object")
        return held

    try:
        held = json.loads(body, object_pairs_hook=unique)
        if not isinstance(held, dict):
            raise ValueError(f"it is a {type(held).__name__}")
    except (ValueError, RecursionError) as trouble:
        lines = "; JSON lines need the format jsonl" if b"\n{" in body else ""
        reason = str(trouble) if isinstance(error, RecursionError) or "twice" in str(trouble) else str(error)
        raise BrokenInput(path, f"{_EXPECTED}: {reason}{lines}") from error
    _check_shape(path, [b"{" if isinstance(value, dict) else b"" for value in held.values()])
    return [(query, json.dumps(value).encode()) for query, value in held.items()]


def _block(numbers: list[int], ids: list[str], maps: list[dict[str, float]]) -> Queries:
    return Queries(
        np.array(numbers, np.int64),
        pa.array(ids, pa.string()),
        list_offsets(np.array([len(found) for found in maps])),
        pa.array([doc for found in maps for doc in found], pa.string()),
        np.array([number for found in maps for number in found.values()], np.float64),
    )


def _record(number: int, query: str, text: bytes, odd: Callable[[Any], dict[str, Any]]) -> Rows | Refused:
    """A query whose value is not what it should be, for the parser to say why."""
    try:
        return Rows([number], [{"id": query, **odd(json.loads(text))}])
    except (ValueError, RecursionError) as error:
        utf8 = isinstance(error, UnicodeDecodeError)
        code, message = ("bad_utf8", "the value is not UTF-8") if utf8 else ("bad_json", f"not JSON: {error}")
        return Refused(number, code, message, text[:PREVIEW_BYTES], hashlib.sha256(text).hexdigest())


def _odd_gold(value: Any) -> dict[str, Any]:
    return {"expected_output": value if isinstance(value, dict) else None}


def _odd_list(value: Any) -> dict[str, Any]:
    """A number that is not finite has a code of its own; what is no number cannot be ranked by."""
    if isinstance(value, dict) and any(_is_wild(score) for score in value.values()):
        return {"retrieved": [{"id": doc, "score": score} for doc, score in value.items()]}
    return {"actual_output": {"scores": value}}


def _is_wild(score: Any) -> bool:
    try:
        return isinstance(score, (int, float)) and not math.isfinite(score)
    except OverflowError:
        return True
