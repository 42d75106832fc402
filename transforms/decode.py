"""Lines of JSON to records, as many as possible in one call; what cannot be decoded gets a code and a reason."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from .bounds import breach, too_deep
from .limits import DEFAULTS, Limits
from .records import Lines, Rows

_NON_FINITE = re.compile(r"NaN|Infinity|[0-9][eE]\+?[0-9]{2}|[0-9]{300}")
_NOT_JSON = "NaN, Infinity or a number past 1e308 is not JSON; have the writer put null, or leave it out"
_DIGITS = 512
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


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
    actualOutput: Any = None  # one of the systems spells it so
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


def decode_lines(lines: Lines, record_type: type[Any], limits: Limits = DEFAULTS) -> Decoded:
    """Decode a block of JSON lines, a line at a time.

    Never all lines in one call: two values on one line and one value over two lines would cancel out unseen.
    """
    decoder = msgspec.json.Decoder(record_type)
    decode = decoder.decode
    least = min(limits.cell_bytes, 2 * limits.list_items)
    suspects = [i for i, line in enumerate(lines.data) if line.count(b"[") + line.count(b"{") > limits.depth]
    try:
        for line in lines.data:
            if not line.isascii():
                line.decode()
        records = [decode(line) for line in lines.data]
        flaws: dict[int, Flaw] = {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        records, flaws = [], {}
        for i, line in enumerate(lines.data):
            record, flaw = _decode_one(line, decoder, limits)
            records.append(record)
            if flaw is not None:
                flaws[i] = flaw
    for i in suspects:
        if i not in flaws and nesting_exceeds(lines.data[i], limits.depth):
            flaws[i] = Flaw(*too_deep(limits))
            records[i] = record_type(id=records[i].id)
    # A text takes its bytes and an item at least two: a shorter line holds neither too long a text nor list.
    for i, line in enumerate(lines.data):
        if len(line) > least and i not in flaws and (broken := breach(_fields(records[i]), limits)):
            flaws[i] = Flaw(*broken)
            records[i] = record_type(id=records[i].id)
    return Decoded(lines.numbers, records, lines.data, flaws)


def decode_rows(rows: Rows, record_type: type[Any], limits: Limits = DEFAULTS) -> Decoded:
    """Take records that are plain Python objects already."""
    known = record_type.__struct_fields__
    records, raw, flaws = [], list(rows.records), {}
    for i, row in enumerate(rows.records):
        broken = breach(row, limits) if isinstance(row, (Mapping, list, tuple)) else None
        if broken is not None:
            flaws[i] = Flaw(*broken)
            found = row.get("id") if isinstance(row, Mapping) else None
            known_by = {"id": found if isinstance(found, (str, int, np.integer)) else None}
            records.append(record_type(**known_by))
            if flaws[i].code == "too_deep":  # to be spelled as well, so its id is all that is left of it
                raw[i] = known_by
        elif not isinstance(row, Mapping):
            records.append(record_type())
            flaws[i] = Flaw("bad_json", f"a record must be an object, found {type(row).__name__}")
        else:
            records.append(record_type(**{name: _listed(row[name]) for name in known if name in row}))
    return Decoded(rows.numbers, records, raw, flaws)


def json_value(text: str, limits: Limits = DEFAULTS) -> Any:
    """The value of a JSON text inside a record; a ValueError if it is none, one with a code if that says more."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        if _read_leniently(text) is not None:
            raise NonFinite(_NOT_JSON) from None
        raise ValueError(str(error)) from None
    # Only of what is JSON: a plain text may hold any number of brackets.
    if text.count("[") + text.count("{") > limits.depth and nesting_exceeds(text.encode(), limits.depth):
        raise TooDeep(too_deep(limits)[1])
    return value


class Coded(ValueError):
    """JSON that has a flaw with a code of its own."""

    code: str


class NonFinite(Coded):
    """JSON but for a NaN, an Infinity or a number that no float can hold."""

    code = "non_finite"


class TooDeep(Coded):
    """Brackets nested deeper than a record may be."""

    code = "too_deep"


def canonical_json(value: Any) -> str:
    """JSON text with sorted keys, so that equal content has one spelling; for what JSON lacks, one of our own."""
    try:
        return msgspec.json.encode(value, order="sorted", enc_hook=_spell).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _spell(value)


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
        return integer_id(int(item))
    raise ValueError(f"a {type(item).__name__} where a document id belongs")


def integer_id(number: int) -> str:
    """An integer as the text it stands for. A ValueError where it has more digits than anyone could mean."""
    if abs(number) >= 10**_DIGITS:
        raise ValueError(f"an integer of more than {_DIGITS} digits")
    return str(number)


def nesting_exceeds(text: bytes, depth: int) -> bool:
    """Whether brackets nest deeper than `depth`, for JSON text of any size.

    Folding innermost pairs away, a level a pass, settles nearly every line in a few C calls. Brackets inside strings
    nearly always make it look deeper, so what does not fold is looked at again with the strings taken out.
    """
    return not _folds_within(text, depth) and not _folds_within(_STRINGS.sub(b"", text), depth)


def _folds_within(text: bytes, depth: int) -> bool:
    # One kind of bracket, or a pass would fold a level of each kind and see half of the depth.
    brackets = text.translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(depth):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")
    return not brackets


def _decode_one(line: bytes, decoder: Any, limits: Limits) -> tuple[Any, Flaw | None]:
    nothing = decoder.type()
    try:
        line.decode()
        return decoder.decode(line), None
    except UnicodeDecodeError as error:
        return nothing, Flaw("bad_utf8", f"byte {error.start + 1} of the line is not UTF-8")
    except RecursionError:
        return nothing, Flaw(*too_deep(limits))
    except msgspec.DecodeError as error:
        # Python's reader takes what the standard forbids: enough to find the id, so that the join knows of it.
        fields = _read_leniently(line.decode())
        if not isinstance(fields, dict):
            return nothing, Flaw("bad_json", f"not a JSON object: {error}")
        known = {name: fields[name] for name in decoder.type.__struct_fields__ if name in fields}
        return decoder.type(**known), Flaw("non_finite", _NOT_JSON)


def _read_leniently(text: str) -> Any:
    """The value of a text that is JSON but for a number that is not finite; None for any other text."""
    if not _NON_FINITE.search(text):
        return None
    wild = []

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            wild.append(word)
        return value

    try:
        value = json.loads(text, parse_float=number, parse_constant=number)
    except (ValueError, RecursionError):
        return None
    return value if wild else None


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _listed(value: Any) -> Any:
    """Arrays, as data frames give them, are lists."""
    return [_listed(item) for item in value.tolist()] if isinstance(value, np.ndarray) and value.ndim else value


def _spell(value: Any) -> str:
    """Any value of bounded depth in ASCII; maps in one order, integers of any size."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_spell(key)}:{_spell(item)}" for key, item in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_spell, value)) + "]"
    return hex(value) if isinstance(value, int) else ascii(value)
