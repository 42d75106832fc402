"""Lines of JSON to records, as many as possible in one call; what cannot be decoded gets a code and a reason."""

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from .records import Lines, Rows

MAX_DEPTH = 64

_NON_FINITE = re.compile(rb"NaN|Infinity|[0-9][eE]\+?[0-9]{3}")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRINGS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class SampleRecord(msgspec.Struct):
    """A sample's contract fields as they came; every other field is skipped while decoding."""

    id: Any = None
    expected_output: Any = None
    metadata: Any = None
    input: Any = None
    answer: Any = None


class OutputRecord(msgspec.Struct):
    """An output's contract fields as they came; every other field is skipped while decoding."""

    id: Any = None
    actual_output: Any = None
    actualOutput: Any = None  # noqa: N815 - one of the systems spells it so
    retrieved: Any = None
    error: Any = None
    answer: Any = None
    citations: Any = None
    latency_ms: Any = None
    usage: Any = None
    cost: Any = None


@dataclass
class Flaw:
    """What is wrong with one record, in a code for machines and a sentence for people."""

    code: str
    message: str


@dataclass
class Decoded:
    """Records of one block, each with its number, its raw form for previews, and its flaw if it has one.

    A record whose flaw left its id readable is still a record: the join must know of it.
    """

    numbers: list[int]
    records: list[Any]
    raw: list[Any]
    flaws: dict[int, Flaw]


def decode_lines(lines: Lines, record_type: type[Any]) -> Decoded:
    """Decode a block of JSON lines, a line at a time.

    Never all lines in one call: two values on one line and one value over two lines would cancel out unseen.
    """
    decoder = msgspec.json.Decoder(record_type)
    decode = decoder.decode
    suspects = [i for i, line in enumerate(lines.data) if line.count(b"[") + line.count(b"{") > MAX_DEPTH]
    try:
        for line in lines.data:
            if not line.isascii():
                line.decode()
        records = [decode(line) for line in lines.data]
        flaws = {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        records, flaws = [], {}
        for i, line in enumerate(lines.data):
            record, flaw = _decode_one(line, decoder)
            records.append(record)
            if flaw is not None:
                flaws[i] = flaw
    for i in suspects:
        if i not in flaws and nesting_exceeds(lines.data[i], MAX_DEPTH):
            flaws[i] = _too_deep()
    return Decoded(lines.numbers, records, lines.data, flaws)


def decode_rows(rows: Rows, record_type: type[Any]) -> Decoded:
    """Take records that are plain Python objects already."""
    known = set(record_type.__struct_fields__)
    records, flaws = [], {}
    for i, row in enumerate(rows.records):
        if not isinstance(row, dict):
            records.append(record_type())
            flaws[i] = Flaw("bad_json", f"a record must be an object, found {type(row).__name__}")
            continue
        record = record_type(**{name: value for name, value in row.items() if name in known})
        records.append(record)
        if _deeper_than(record, MAX_DEPTH):
            flaws[i] = _too_deep()
    return Decoded(rows.numbers, records, rows.records, flaws)


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys, so that equal content has one spelling; for what JSON lacks, Python's own."""
    try:
        return msgspec.json.encode(value, order="sorted", enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError, UnicodeError):
        return ascii(value)


def doc_id(item: Any, noted: set[str]) -> str:
    """The document id that an item is; an integer is cast and noted. A ValueError says what it is instead."""
    if isinstance(item, str):
        if not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError:
                raise ValueError("a document id that is not valid Unicode") from None
        return item
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        noted.add("integer_ids")
        return str(item)
    raise ValueError(f"a {type(item).__name__} where a document id belongs")


def nesting_exceeds(text: bytes, depth: int) -> bool:
    """Whether brackets nest deeper than `depth`, for JSON text of any size.

    Folding innermost pairs away, a level a pass, settles nearly every line in a few C calls. Brackets inside strings
    can only make it look deeper, so what does not fold is looked at again with the strings taken out.
    """
    if not _folds_within(text.translate(None, _NOT_BRACKETS), depth):
        brackets = b"".join(t for t in _STRINGS_AND_BRACKETS.findall(text) if not t.startswith(b'"'))
        return not _folds_within(brackets, depth)
    return False


def _folds_within(brackets: bytes, depth: int) -> bool:
    for _ in range(depth):
        if not brackets:
            return True
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return not brackets


def _decode_one(line: bytes, decoder: Any) -> tuple[Any, Flaw | None]:
    nothing = decoder.type()
    try:
        line.decode()
        return decoder.decode(line), None
    except UnicodeDecodeError as error:
        return nothing, Flaw("bad_utf8", f"byte {error.start + 1} of the line is not UTF-8")
    except RecursionError:
        return nothing, _too_deep()
    except msgspec.DecodeError as error:
        flaw = Flaw("bad_json", f"not a JSON object: {error}")
        if _NON_FINITE.search(line) or "out of range" in str(error):
            # Python's reader takes what the standard forbids: enough to find the id, so that the join knows of it.
            try:
                fields = json.loads(line)
                known = {name: fields[name] for name in decoder.type.__struct_fields__ if name in fields}
            except (ValueError, TypeError, RecursionError):
                return nothing, flaw
            reason = "NaN, Infinity or a number past 1e308 is not JSON; have the writer put null, or leave it out"
            return decoder.type(**known), Flaw("non_finite", reason)
        return nothing, flaw


def _too_deep() -> Flaw:
    return Flaw("too_deep", f"nested deeper than {MAX_DEPTH} levels")


def _deeper_than(record: Any, depth: int) -> bool:
    """Walk a record breadth first, a level a round, until it ends or passes the depth."""
    level = [value for value in msgspec.structs.astuple(record) if isinstance(value, (dict, list, tuple))]
    for _ in range(depth):
        if not level:
            return False
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, (dict, list, tuple))
        ]
    return bool(level)
