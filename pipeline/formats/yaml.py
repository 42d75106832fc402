"""YAML: a list of records, bare or under `samples:` or `outputs:`.

Only what JSON can say is understood. An unquoted word is null, true, false, a whole number or a number with a decimal
point; everything else stays the text that was written: dates (`2026-11-18`), `no`, `1e3`, `007`, whole numbers of more
than 18 digits. Keys are always text. Anchors and aliases, tags, a second document and a repeated key are errors: none
has a place in data, and each is a way for a file to mean something else than it shows.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import yaml

from transforms.limits import MIB, BrokenInput, Limits
from transforms.records import Columns, Lines, Refused, Rows

from .bytestream import check_start, chunks

LARGEST_FILE = 64 * MIB
PREVIEW_CHARS = 200
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
    text = _text(path)
    numbers: list[int] = []
    records: list[Any] = []
    for item in _items(path, text, limits):
        if isinstance(item, Refused):
            yield item
            continue
        numbers.append(item[0])
        records.append(item[1])
        if len(records) >= min(block_rows, BLOCK_ROWS):
            yield Rows(numbers, records)
            numbers, records = [], []
    if records:
        yield Rows(numbers, records)


def _text(path: str) -> str:
    parts: list[bytes] = []
    size = 0
    with closing(chunks(path)) as pieces:
        for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size > LARGEST_FILE:
                raise BrokenInput(path, f"has more than {LARGEST_FILE >> 20} MiB of YAML; use JSONL or Parquet")
    try:
        return b"".join(parts).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenInput(path, f"is not UTF-8 at byte {error.start}; save it as UTF-8") from error


def _items(path: str, text: str, limits: Limits) -> Iterator[tuple[int, Any] | Refused]:
    """The records of the list, one after the other."""
    events = _events(path, text)
    first = next(events, None)
    if first is None or _is_null(first):
        return
    if isinstance(first, yaml.SequenceStartEvent):
        yield from _list(path, text, events, limits)
    elif isinstance(first, yaml.MappingStartEvent):
        seen: set[str] = set()
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = _key(path, event, seen)
            value = next(events)
            if key not in _LISTS:
                _Builder(path, limits).build(value, events)
            elif seen.issuperset(_LISTS):
                raise BrokenInput(path, "has both samples: and outputs:; write them to two files")
            elif isinstance(value, yaml.SequenceStartEvent):
                yield from _list(path, text, events, limits)
            elif not _is_null(value):
                raise BrokenInput(path, f"{key}: on line {_line(event)} is not a list")
        if not seen.intersection(_LISTS):
            raise BrokenInput(path, "has neither samples: nor outputs:, and is not a list")
    else:
        raise BrokenInput(path, "is not a list of records, nor has one under samples: or outputs:")
    for _ in events:  # a second document is found by looking for it
        pass


def _list(path: str, text: str, events: Iterator[Any], limits: Limits) -> Iterator[tuple[int, Any] | Refused]:
    number = 0
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        number += 1
        builder = _Builder(path, limits)
        record = builder.build(event, events)
        if builder.flaw is None:
            yield number, record
        else:
            source = text[event.start_mark.index : builder.end]
            code, message = builder.flaw
            digest = hashlib.sha256(source.encode()).hexdigest()
            yield Refused(number, code, message, source[:PREVIEW_CHARS].encode(), digest)


class _Builder:
    """Puts one value together out of events, without calling itself."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self.flaw: tuple[str, str] | None = None
        """Code and message of what makes the value unusable; it is still read to its end, and its keys checked."""
        self.end = 0
        """Where the value ends in the text."""

    def build(self, event: Any, events: Iterator[Any]) -> Any:
        """The value that starts with this event."""
        frames: list[_Frame] = []
        while True:
            if isinstance(event, _CLOSING):
                value = frames.pop().value
            elif frames and frames[-1].wants_key:
                frames[-1].key = _key(self._path, event, frames[-1].seen)
                event = next(events)
                continue
            elif isinstance(event, _OPENING):
                frames.append(_Frame(isinstance(event, yaml.MappingStartEvent)))
                self._check_depth(len(frames), event)
                event = next(events)
                continue
            else:
                value = self._scalar(event)
            if not frames:
                self.end = event.end_mark.index
                return value
            frames[-1].put(value)
            event = next(events)

    def _check_depth(self, depth: int, event: Any) -> None:
        if depth > _DEEPEST:
            raise BrokenInput(self._path, f"is nested more than {_DEEPEST} deep on line {_line(event)}")
        if depth > self._limits.depth:
            self.flaw = ("too_deep", f"nested deeper than {self._limits.depth} levels")

    def _scalar(self, event: Any) -> Any:
        written: str = event.value
        # Characters first: most texts are too short to be worth encoding.
        size = len(written) if 4 * len(written) <= self._limits.cell_bytes else len(written.encode())
        if size > self._limits.cell_bytes:
            self.flaw = ("cell_too_large", f"text of {size} bytes, the limit is {self._limits.cell_bytes}")
        return _plain(written) if event.tag is None and event.implicit[0] else written


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
