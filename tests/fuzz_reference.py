"""What must become of every line of two JSONL files, by Python's own json and the words of the contract.

Written without the code under test: a line at a time, no blocks, no columns. Where the contract leaves the code open,
because a line has two faults, each of them will do.
"""

import json
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

FIELDS = {
    "samples": ("id", "expected_output", "metadata", "input", "answer"),
    "outputs": (
        "id", "actual_output", "actualOutput", "retrieved", "error", "answer", "citations", "latency_ms",
        "usage", "cost",
    ),
}  # fmt: skip
ASIDE = ("error", "answer", "citations", "latency_ms", "usage", "cost")


@dataclass
class Line:
    """One line that is not blank: its id if it has a usable one, the codes it may be refused by, and what it says."""

    number: int
    raw: bytes
    id: str | None = None
    codes: set[str] = field(default_factory=set)
    content: Any = None
    gold: dict[str, float] | None = None
    ranked: list[str] | None = None
    failed: bool = False


class Pairs(dict[str, Any]):
    """An object that remembers every pair that was written, also those that a later one overrode."""

    pairs: list[tuple[str, Any]]


class Overflow(float):
    """A number that no float can hold."""


class Digits(int):
    """An integer of more digits than Python will read."""


class Fault(Exception):
    def __init__(self, *codes: str) -> None:
        super().__init__(*codes)
        self.codes = set(codes)


def read_lines(data: bytes, side: str, strict: bool, limit: int) -> list[Line]:
    """Every line that is not blank. `strict`: the dialect refuses empty golds, groups, and integers as document ids."""
    found = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        if not raw.strip(b" \t\r\v\f"):
            continue
        line = Line(number, raw)
        found.append(line)
        if len(raw) > limit:
            line.codes = {"too_large"}
            continue
        try:
            record = _record(raw, side)
        except Fault as fault:
            line.codes = fault.codes
            continue
        broken = _numbers(record, FIELDS[side]) | ({"too_deep"} if _depth(record) > 64 else set())
        try:
            line.id = _id(record.get("id"))
        except Fault as fault:
            line.codes = broken or fault.codes
            continue
        try:
            if broken:
                raise Fault(*broken)
            _sample(line, record, strict) if side == "samples" else _output(line, record, strict)
        except Fault as fault:
            line.codes, line.content = fault.codes, raw
    return found


def _record(raw: bytes, side: str) -> Pairs:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Fault("bad_utf8") from None
    try:
        record = _loads(text)
    except RecursionError:
        raise Fault("too_deep", "non_finite", "bad_json") from None
    except ValueError:
        raise Fault("bad_json") from None
    if not isinstance(record, Pairs):
        raise Fault("bad_json")
    wild = _numbers(record, FIELDS[side])
    # A number that Python will not read, and half of a surrogate pair, are not JSON; unless NaN explains the line.
    if any(isinstance(each, Digits) for name, value in record.pairs if name in FIELDS[side] for each in _walk(value)):
        raise Fault("bad_json")
    if not wild and any(isinstance(each, str) and not _is_unicode(each) for each in _walk(record)):
        raise Fault("bad_json")
    return record


def _loads(text: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> Pairs:
        made = Pairs(found)
        made.pairs = found
        return made

    def real(word: str) -> float:
        return Overflow(word) if math.isinf(float(word)) else float(word)

    def whole(word: str) -> int:
        return Digits(0) if len(word.lstrip("-")) > 4300 else int(word)

    return json.loads(text, object_pairs_hook=pairs, parse_float=real, parse_int=whole)


def _walk(value: Any) -> list[Any]:
    """Every value within, keys too, also those overridden."""
    found, todo = [], [value]
    while todo:
        each = todo.pop()
        found.append(each)
        if isinstance(each, Pairs):
            todo += [part for pair in each.pairs for part in pair]
        elif isinstance(each, list):
            todo += each
    return found


def _numbers(record: Pairs, known: tuple[str, ...]) -> set[str]:
    """NaN and Infinity are not JSON wherever they stand. 1e999 is, and a field nobody reads may hold it."""
    constants = any(type(each) is float and not math.isfinite(each) for each in _walk(record))
    large = any(isinstance(each, Overflow) for name, value in record.pairs if name in known for each in _walk(value))
    return {"non_finite"} if constants or large else set()


def _depth(value: Any) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        each, depth = todo.pop()
        inside = (
            [part for _, part in each.pairs] if isinstance(each, Pairs) else each if isinstance(each, list) else None
        )
        if inside is not None:
            deepest = max(deepest, depth)
            todo += [(part, depth + 1) for part in inside]
    return deepest


def _is_unicode(text: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)


def _id(value: Any) -> str:
    if value is None:
        raise Fault("missing_id")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _is_unicode(value) or len(value) > 512:
        raise Fault("bad_id", *(["missing_id"] if isinstance(value, str) and not value.strip() else []))
    control = any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in value)
    if control or not value.strip():
        raise Fault(*(["bad_id"] if control else []), *(["missing_id"] if not value.strip() else []))
    return value


def _doc(value: Any, code: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if len(str(abs(value))) > 512:
            raise Fault(code)
        return str(value)
    if not isinstance(value, str) or not _is_unicode(value) or not value.strip():
        raise Fault(code)
    return value


def _inner(text: str) -> Any:
    """The value of a JSON text within a record: ValueError if it is none, Fault if only a number is wrong."""
    try:
        value = _loads(text)
    except RecursionError:
        raise ValueError("too deep") from None
    within = _walk(value)
    if any(isinstance(each, float) and not math.isfinite(each) for each in within):
        raise Fault("non_finite")
    if any(isinstance(each, Digits) or isinstance(each, str) and not _is_unicode(each) for each in within):
        raise ValueError("not JSON to a careful reader")
    if _depth(value) > 64:
        raise Fault("too_deep")
    return value


def _sample(line: Line, record: Pairs, strict: bool) -> None:
    given, metadata, answer = record.get("expected_output"), record.get("metadata"), record.get("answer")
    codes: set[str] = set()
    shape: Any = None
    try:
        shape = _gold(given, strict)
        if shape is None and not isinstance(answer, str):
            codes.add("bad_gold")
    except Fault as fault:
        codes |= fault.codes
    try:
        read = _inner(metadata) if isinstance(metadata, str) else metadata
        if read is not None and not isinstance(read, dict):
            codes.add("bad_gold")
    except (ValueError, Fault):
        codes.add("bad_gold")
    if codes:
        raise Fault(*codes)
    if isinstance(shape, dict):
        line.gold = shape
    elif isinstance(shape, list):
        line.gold = {doc: 1.0 for part in shape for doc in (part if isinstance(part, list) else [part])}
    line.content = json.dumps([shape, record.get("input"), metadata, answer], sort_keys=True)


def _gold(value: Any, strict: bool) -> Any:
    """A map, a list, a list of lists, or text, with document ids as texts and gains as floats."""
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("[", "{"):
            return value
        try:
            value = _inner(value)
        except ValueError:
            return value
    if value is None:
        return None
    if isinstance(value, dict):
        codes: set[str] = set() if value or not strict else {"bad_gold"}
        gains = {}
        for doc, gain in value.items():
            try:
                gains[_doc(doc, "bad_gold")] = _gain(gain)
            except Fault as fault:
                codes |= fault.codes
        if codes:
            raise Fault(*codes)
        return gains
    if not isinstance(value, list):
        raise Fault("bad_gold")
    grouped = any(isinstance(item, list) for item in value)
    if grouped:
        if strict or not all(isinstance(item, list) for item in value):
            raise Fault("bad_gold")
        return [[_doc(doc, "bad_gold") for doc in group] for group in value]
    if strict and (not value or any(isinstance(item, int) for item in value)):
        raise Fault("bad_gold")
    return [_doc(doc, "bad_gold") for doc in value]


def _gain(gain: Any) -> float:
    if isinstance(gain, bool) or not isinstance(gain, (int, float, str)) or isinstance(gain, str) and "_" in gain:
        raise Fault("bad_gold")
    try:
        number = float(gain)
    except OverflowError:
        number = math.inf
    except ValueError:
        raise Fault("bad_gold") from None
    if not math.isfinite(number):
        raise Fault("non_finite")
    return number


def _output(line: Line, record: Pairs, strict: bool) -> None:
    given = record.get("actual_output")
    given = record.get("actualOutput") if given is None else given
    within: dict[str, Any] = {}
    items: Any = None
    try:
        items = _unwrapped(given)
        if isinstance(items, dict):
            within = items
            items = _unwrapped(within.get("retrieved")) if within else []
        elif items is None:
            items = _unwrapped(record.get("retrieved"))
    except Fault:
        if not (_set(record.get("error")) or _set(within.get("error"))):
            raise
        items = None
    aside = [within.get(name) if record.get(name) is None else record.get(name) for name in ASIDE]
    line.failed = _set(aside[0])
    rest: Any = None
    if not isinstance(items, list):
        if not line.failed:
            raise Fault("bad_output")
        rest, items = [given if items is None else items], []
    entries = [_entry(item, strict) for item in items]
    line.ranked = [entry[0] for entry in entries]
    line.content = json.dumps([entries, line.failed, aside, rest], sort_keys=True)


def _unwrapped(value: Any) -> Any:
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = _inner(value)
            except ValueError:
                raise Fault("bad_output") from None
    return value


def _set(error: Any) -> bool:
    return bool(error) if isinstance(error, (bool, str)) else error is not None


def _entry(item: Any, strict: bool) -> tuple[str, str | None, float | None]:
    text = score = None
    codes: set[str] = set()
    if isinstance(item, dict):
        text = item.get("text") if isinstance(item.get("text"), str) else None
        score = item.get("score")
        if isinstance(score, bool) or not isinstance(score, (int, float)):
            score = None
        try:
            score = None if score is None else float(score)
        except OverflowError:
            codes.add("non_finite")
        item = item.get("id")
    if strict and isinstance(item, int):
        codes.add("bad_output")
    try:
        doc = _doc(item, "bad_output")
    except Fault as fault:
        codes |= fault.codes
    if codes:
        raise Fault(*codes)
    return doc, text, score


@dataclass
class Fate:
    """What the ledger must say of one side, and of every line by its number: its codes, or nothing if it was used."""

    terms: Counter[str] = field(default_factory=Counter)
    refused: dict[int, set[str]] = field(default_factory=dict)
    alive: dict[str, Line] = field(default_factory=dict)
    """Id → the record that stands for it in the join."""
    conflicting: set[str] = field(default_factory=set)
    flawed: set[str] = field(default_factory=set)
    """Ids under which there is nothing but a record that cannot be used."""


def decide(lines: list[Line], keeps_flawed: bool) -> Fate:
    """One side, before the other is looked at. `keeps_flawed`: a record with a good id and a bad body has rows too."""
    fate = Fate(Counter(read=len(lines)))
    by_id: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.codes:
            fate.refused[line.number] = line.codes
        if line.id is not None:
            by_id[line.id].append(line)
        if line.codes and (line.id is None or not keeps_flawed):
            fate.terms["rejected"] += 1
    for sample_id, copies in by_id.items():
        clash = len({(bool(line.codes), line.content) for line in copies}) > 1
        counted = [line for line in copies if keeps_flawed or not line.codes]
        if clash:
            fate.conflicting.add(sample_id)
            fate.terms["rejected"] += len(counted)
            for line in counted:
                fate.refused.setdefault(line.number, {"conflict"})
        elif counted:
            fate.alive[sample_id] = counted[0]
            fate.terms["duplicate"] += len(counted) - 1
        else:
            fate.flawed.add(sample_id)
    return fate
