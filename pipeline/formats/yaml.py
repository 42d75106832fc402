"""YAML: a list of records, bare or under `samples:` or `outputs:`.

Only what JSON can say is understood. An unquoted word is null, true, false, a whole number or a number with a decimal
point; everything else stays the text that was written: dates (`2026-11-18`), `no`, `1e3`, `007`, whole numbers of more
than 18 digits. Keys are always text. Anchors and aliases, tags, a second document and a repeated key are errors: none
has a place in data, and each is a way for a file to mean something else than it shows.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import yaml

from transforms.limits import MIB, BrokenInput, Limits
from transforms.records import Columns, Lines, Refused, Rows

from .bytestream import check_start, chunks

LARGEST_FILE = 64 * MIB
BLOCK_ROWS = 4096
_DEEPEST = 1000
_LISTS = ("samples", "outputs")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"-?[1-9][0-9]{0,17}|0")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][+-]?[0-9]{1,3})?")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSING = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def peek(path: str) -> None:
    check_start(path)


def read(
    path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None
) -> Iterator[Lines | Rows | Columns | Refused]:
    """Records by their place in the list, from 1. `columns` is for columnar formats and ignored.

    The parser's events are put together here, not by PyYAML: its composer calls itself at each level of nesting, and
    lets the last of two equal keys win.
    """
    text = _text(path, limits)
    numbers: list[int] = []
    records: list[Any] = []
    for number, record in _items(path, text):
        numbers.append(number)
        records.append(record)
        if len(records) >= min(block_rows, BLOCK_ROWS):
            yield Rows(numbers, records)
            numbers, records = [], []
    if records:
        yield Rows(numbers, records)


def _text(path: str, limits: Limits) -> str:
    parts: list[bytes] = []
    size = 0
    with closing(chunks(path, limits)) as pieces:
        for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size > LARGEST_FILE:
                raise BrokenInput(path, f"has more than {LARGEST_FILE >> 20} MiB of YAML; use JSONL or Parquet")
    try:
        return b"".join(parts).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenInput(path, f"is not UTF-8 at byte {error.start}; save it as UTF-8") from error


def _items(path: str, text: str) -> Iterator[tuple[int, Any]]:
    """The records of the list, one after the other."""
    events = _events(path, text)
    first = next(events, None)
    if first is None or _is_null(first):
        return
    if isinstance(first, yaml.SequenceStartEvent):
        yield from _list(path, events)
    elif isinstance(first, yaml.MappingStartEvent):
        seen: set[str] = set()
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = _key(path, event, seen)
            value = next(events)
            if key not in _LISTS:
                _build(path, value, events)
            elif seen.issuperset(_LISTS):
                raise BrokenInput(path, "has both samples: and outputs:; write them to two files")
            elif isinstance(value, yaml.SequenceStartEvent):
                yield from _list(path, events)
            elif not _is_null(value):
                raise BrokenInput(path, f"{key}: on line {_line(event)} is not a list")
        if not seen.intersection(_LISTS):
            raise BrokenInput(path, "has neither samples: nor outputs:, and is not a list")
    else:
        raise BrokenInput(path, "is not a list of records, nor has one under samples: or outputs:")
    for _ in events:  # a second document is found by looking for it
        pass


def _list(path: str, events: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    number = 0
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        number += 1
        yield number, _build(path, event, events)


def _build(path: str, event: Any, events: Iterator[Any]) -> Any:
    """The value that starts with this event, put together without a call for each level."""
    frames: list[_Frame] = []
    while True:
        if isinstance(event, _CLOSING):
            value = frames.pop().value
        elif frames and frames[-1].wants_key:
            frames[-1].key = _key(path, event, frames[-1].seen)
            event = next(events)
            continue
        elif isinstance(event, _OPENING):
            frames.append(_Frame(isinstance(event, yaml.MappingStartEvent)))
            if len(frames) > _DEEPEST:
                raise BrokenInput(path, f"is nested more than {_DEEPEST} deep on line {_line(event)}")
            event = next(events)
            continue
        else:
            value = _plain(event.value) if event.tag is None and event.implicit[0] else event.value
        if not frames:
            return value
        frames[-1].put(value)
        event = next(events)


class _Frame:
    """A mapping or list that is not closed yet."""

    def __init__(self, mapping: bool) -> None:
        self.value: Any = {} if mapping else []
        self.seen: set[str] = set()
        self.key: str | None = None
        self._mapping = mapping

    @property
    def wants_key(self) -> bool:
        return self._mapping and self.key is None

    def put(self, value: Any) -> None:
        if self._mapping:
            self.value[self.key] = value
            self.key = None
        else:
            self.value.append(value)


def _events(path: str, text: str) -> Iterator[Any]:
    """What the parser sees between the start and the end of the one document."""
    documents = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.NodeEvent):
                if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
                    raise BrokenInput(path, f"has an anchor or alias on line {_line(event)}; write the value out")
                tag = getattr(event, "tag", None)
                if tag is not None and tag not in ("!", "tag:yaml.org,2002:str"):
                    raise BrokenInput(path, f"has a tag on line {_line(event)}; data needs none")
                yield event
            elif isinstance(event, _CLOSING):
                yield event
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise BrokenInput(path, f"has a second document on line {_line(event)}; write one list")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        place = f"on line {mark.line + 1}" if mark else "somewhere"
        raise BrokenInput(path, f"is not YAML {place}: {what}") from error


def _key(path: str, event: Any, seen: set[str]) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise BrokenInput(path, f"has a key that is not text on line {_line(event)}")
    key: str = event.value
    if key in seen:
        raise BrokenInput(path, f"has the key {key[:80]!r} twice in a mapping, again on line {_line(event)}; keep one")
    seen.add(key)
    return key


def _plain(written: str) -> Any:
    """What an unquoted word means."""
    if written in _WORDS:
        return _WORDS[written]
    if _WHOLE.fullmatch(written):
        return int(written)
    return float(written) if _DECIMAL.fullmatch(written) else written


def _is_null(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and bool(event.implicit[0]) and _WORDS.get(event.value, 0) is None


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
