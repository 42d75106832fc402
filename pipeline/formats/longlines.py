"""Lines of one document each, for the formats that are written so: all lines of a piece are split and parsed at once.

A line that is not what its format says costs that line, with its place and its reason; blank lines cost nothing.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.bounds import cell_too_large
from transforms.columns import blank_items, list_offsets
from transforms.limits import Limits
from transforms.records import Bools, Floats, Ints, Long, Refused

from .bytestream import chunks
from .jsonl import PREVIEW_BYTES, too_large, whole_lines, without_bom

Bytes = npt.NDArray[np.uint8]

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_NO_FINITE_NUMBER = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """What stands where on a line. A line has exactly the named fields."""

    fields: tuple[str, ...]
    query: int
    doc: int
    value: int
    rank: int | None = None
    tabs: bool = False
    """Fields end at a tab and may hold spaces or nothing; else they are separated by any ASCII white space."""
    headings: tuple[str, ...] = ()
    """Words of which one stands for the value in a first line that is a header, in lower case."""


def read_long(path: str, limits: Limits, block_rows: int, layout: Layout) -> Iterator[Long]:
    """Blocks of at most `block_rows` lines; lines are numbered from 1, blank ones counted."""
    for found in whole_lines(without_bom(chunks(path, limits)), limits.line_bytes):
        if isinstance(found, Refused):
            yield Long.nothing([found])
            continue
        long = parse_lines(*found, layout, limits)
        yield long.part(0, block_rows)
        for start in range(block_rows, len(long.numbers), block_rows):
            yield long.part(start, start + block_rows)


def parse_lines(number: int, body: bytes, layout: Layout, limits: Limits) -> Long:
    """The lines of a piece, the first of which has this number."""
    data = np.frombuffer(body + b"\n", np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    left, right = _tabbed(data) if layout.tabs else _spaced(data)
    first = np.searchsorted(left, starts)
    found = np.diff(np.append(first, len(left)))
    fault = _Faults(number, body, starts, ends, layout, found)

    usable = (found == len(layout.fields)) & (ends - starts <= limits.line_bytes)
    usable &= fault.readable()
    if len(body) > limits.cell_bytes:
        usable[np.searchsorted(ends, left[right - left > limits.cell_bytes])] = False
    if number == 1 and layout.headings and _is_header(fault.line(0), layout):
        usable[0] = False
        fault.ignored.add(0)
    rows = np.flatnonzero(usable)

    def column(field: int) -> pa.StringArray:
        at = first[rows] + field
        return _texts(data, left[at], right[at])

    ids, docs, values = column(layout.query), column(layout.doc), _numbers(column(layout.value))
    sound = np.isfinite(values) & ~blank_items(ids) & ~blank_items(docs)
    ranks = None if layout.rank is None else _numbers(column(layout.rank))
    if not sound.all():
        usable[rows[~sound]] = False
        rows, values, ranks = rows[sound], values[sound], ranks if ranks is None else ranks[sound]
        mask = pa.array(sound)
        ids, docs = ids.filter(mask), docs.filter(mask)
    refused = fault.refused(np.flatnonzero(~usable), left, right, first, limits)
    return Long(number + rows, ids, docs, values, ranks, len(rows) + len(refused), refused)


def _spaced(data: Bytes) -> tuple[Ints, Ints]:
    """Where the words between ASCII white space start and end. White space as C has it; never that of Unicode."""
    space = (data - np.uint8(_TAB) < 5) | (data == _SPACE)  # tab, newline, vertical tab, form feed, return; space
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    if not space[0]:
        edges = np.concatenate(([0], edges))
    return edges[0::2], edges[1::2]


def _tabbed(data: Bytes) -> tuple[Ints, Ints]:
    """Where the fields between tabs start and end; the CR of a line ending belongs to no field."""
    right = np.flatnonzero((data == _TAB) | (data == _NEWLINE))
    left = np.concatenate(([0], right[:-1] + 1))
    cut = (data[right] == _NEWLINE) & (right > left) & (data[np.maximum(right - 1, 0)] == _RETURN)
    return left, right - cut


def _texts(data: Bytes, left: Ints, right: Ints) -> pa.StringArray:
    """The texts between these places, laid side by side."""
    lengths = right - left
    offsets = list_offsets(lengths)
    places = np.repeat(left - offsets[:-1], lengths)
    places += np.arange(len(places))
    return pa.StringArray.from_buffers(
        len(lengths), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data.take(places))
    )


def _numbers(texts: pa.StringArray) -> Floats:
    """Texts as numbers, NaN for those that are none. White space around them was taken off by all but tabs."""
    try:
        numbers: Floats = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
        return numbers
    except pa.ArrowInvalid:
        trimmed = pc.ascii_trim(texts, " ")
        plain = pc.if_else(pc.match_substring_regex(trimmed, _NUMBER), trimmed, None)
        return np.array(pc.cast(plain, pa.float64()).fill_null(np.nan))


def _is_header(line: bytes, layout: Layout) -> bool:
    fields = line.split(b"\t")
    return (
        len(fields) == len(layout.fields)
        and fields[layout.value].strip().lower().decode(errors="replace") in layout.headings
    )


@dataclass
class _Faults:
    """Lines that cannot be used, looked at one by one: there are few of them, or there is nothing else to do."""

    number: int
    body: bytes
    starts: Ints
    ends: Ints
    layout: Layout
    found: Ints

    def __post_init__(self) -> None:
        self.ignored: set[int] = set()

    def line(self, i: int) -> bytes:
        return self.body[self.starts[i] : self.ends[i]].removesuffix(b"\r")

    def readable(self) -> Bools:
        """Which lines are UTF-8."""
        fine = np.ones(len(self.starts), np.bool_)
        try:
            if not self.body.isascii():
                self.body.decode()
        except UnicodeDecodeError:
            for i in range(len(self.starts)):
                fine[i] = _is_text(self.line(i))
        return fine

    def refused(self, lines: Ints, left: Ints, right: Ints, first: Ints, limits: Limits) -> list[Refused]:
        refused = []
        for i in lines.tolist():
            line = self.line(i)
            if i in self.ignored or not line or line.isspace():
                continue
            digest = hashlib.sha256(line).hexdigest()
            if len(line) > limits.line_bytes:
                refused.append(too_large(self.number + i, len(line), limits.line_bytes, line[:PREVIEW_BYTES], digest))
                continue
            bounds = range(first[i], first[i] + self.found[i])
            fields = [self.body[left[at] : right[at]] for at in bounds]
            if max(map(len, fields)) > limits.cell_bytes:
                code, message = cell_too_large(limits)
            else:
                code, message = self._reason(line, fields)
            refused.append(Refused(self.number + i, code, message, line[:PREVIEW_BYTES], digest))
        return refused

    def _reason(self, line: bytes, fields: list[bytes]) -> tuple[str, str]:
        layout = self.layout
        if not _is_text(line):
            return "bad_utf8", "the line is not UTF-8"
        if len(fields) != len(layout.fields):
            separated = "separated by tabs" if layout.tabs else "separated by white space"
            named = " ".join(layout.fields)
            return "bad_line", f"expected {len(layout.fields)} fields {separated} ({named}), found {len(fields)}"
        if not fields[layout.query].decode().strip():
            return "missing_id", f"the {layout.fields[layout.query]} is blank"
        if not fields[layout.doc].decode().strip():
            return "bad_line", f"the {layout.fields[layout.doc]} is blank"
        value, name = fields[layout.value].strip(b" "), layout.fields[layout.value]
        if _NO_FINITE_NUMBER.fullmatch(value) or re.fullmatch(_NUMBER.encode(), value):
            return "non_finite", f"the {name} is NaN, infinite or past 1e308"
        return "bad_line", f"the {name} is no number"


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
