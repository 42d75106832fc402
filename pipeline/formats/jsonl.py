"""JSON lines: one record a line. Bytes are split and not decoded: an odd line costs its record, not the file."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from transforms.limits import MIB, Limits
from transforms.records import Columns, Lines, Refused, Rows

from .bytestream import check_start, chunks

BLOCK_BYTES = 32 * MIB
PREVIEW_BYTES = 400
_BOM = b"\xef\xbb\xbf"


def peek(path: str) -> None:
    check_start(path)


def read(
    path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None
) -> Iterator[Lines | Rows | Columns | Refused]:
    """Blocks of lines, numbered from 1 with blank lines counted. `columns` is for columnar formats and ignored."""
    numbers: list[int] = []
    data: list[bytes] = []
    held = 0
    for found in split(without_bom(chunks(path, limits)), limits.line_bytes):
        if isinstance(found, Refused):
            yield found
            continue
        size = sum(map(len, found.data))
        if data and held + size > BLOCK_BYTES:
            yield Lines(numbers, data)
            numbers, data, held = [], [], 0
        numbers += found.numbers
        data += found.data
        held += size
        if len(data) >= block_rows:
            full = len(data) - len(data) % block_rows
            for start in range(0, full, block_rows):
                yield Lines(numbers[start : start + block_rows], data[start : start + block_rows])
            numbers, data = numbers[full:], data[full:]
            held = sum(map(len, data))
    if data:
        yield Lines(numbers, data)


def split(pieces: Iterable[bytes], limit: int) -> Iterator[Lines | Refused]:
    """The lines of each piece, whole, without those that are blank."""
    for found in whole_lines(pieces, limit):
        if isinstance(found, Refused):
            yield found
        else:
            number, body = found
            yield from _tidy(number, body.split(b"\n"), body, limit)


def whole_lines(pieces: Iterable[bytes], limit: int) -> Iterator[tuple[int, bytes] | Refused]:
    """Bytes that end where a line ends, without that ending, each with the number of its first line.

    Linear in the bytes, and never holding more than one piece and one `limit`: a line that outgrows the limit is not
    collected any further, only hashed on its way through. One that does not outgrow a piece may still be over it.
    """
    number = 1
    carry: list[bytes] = []
    carried = 0
    giant: _Giant | None = None
    for piece in pieces:
        cut = piece.rfind(b"\n")
        if cut >= 0:
            if giant:
                first = piece.find(b"\n")
                giant.add(piece[:first])
                yield giant.refused(number, limit)
                giant = None
                number += 1
                body = piece[first + 1 : cut] if first < cut else None
            else:
                body = b"".join([*carry, piece[:cut]])
            if body is not None:
                yield number, body
                number += body.count(b"\n") + 1
            carry, carried = [], 0
            piece = piece[cut + 1 :]
        if giant:
            giant.add(piece)
            continue
        carry.append(piece)
        carried += len(piece)
        # One more than the limit may still be a line of just that length and the CR of its ending.
        if carried > limit + 1:
            giant = _Giant()
            for part in carry:
                giant.add(part)
            carry, carried = [], 0
    if giant:
        yield giant.refused(number, limit)
    elif carried:
        yield number, b"".join(carry)


class _Giant:
    """A line too long to hold: its length, its digest and its beginning."""

    def __init__(self) -> None:
        self.size = 0
        self.start = b""
        self.digest = hashlib.sha256()
        self.ending = b""

    def add(self, part: bytes) -> None:
        if not part:
            return
        # A CR at the end may be half of the line ending: it waits until it turns out to stand inside the line.
        self._take(self.ending)
        self.ending = part[-1:] if part.endswith(b"\r") else b""
        self._take(part[:-1] if self.ending else part)

    def _take(self, part: bytes) -> None:
        self.size += len(part)
        self.digest.update(part)
        if len(self.start) < PREVIEW_BYTES:
            self.start += part[: PREVIEW_BYTES - len(self.start)]

    def refused(self, number: int, limit: int) -> Refused:
        return too_large(number, self.size, limit, self.start, self.digest.hexdigest())


def _tidy(number: int, lines: list[bytes], body: bytes, limit: int) -> Iterator[Lines | Refused]:
    """The lines without CRs, blanks and giants. Whole-list tests first: a clean file never meets the loops."""
    if b"\r" in body:
        lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    numbers = list(range(number, number + len(lines)))
    if not all(lines) or any(map(bytes.isspace, lines)):
        kept = [(at, line) for at, line in zip(numbers, lines, strict=True) if line and not line.isspace()]
        numbers, lines = [at for at, _ in kept], [line for _, line in kept]
    if len(body) > limit and max(map(len, lines), default=0) > limit:
        for at, line in zip(numbers, lines, strict=True):
            if len(line) > limit:
                yield too_large(at, len(line), limit, line[:PREVIEW_BYTES], hashlib.sha256(line).hexdigest())
        kept = [(at, line) for at, line in zip(numbers, lines, strict=True) if len(line) <= limit]
        numbers, lines = [at for at, _ in kept], [line for _, line in kept]
    if lines:
        yield Lines(numbers, lines)


def too_large(number: int, size: int, limit: int, start: bytes, sha256: str) -> Refused:
    message = f"line of {size} bytes, the limit is {limit}"
    if b"\r" in start.rstrip(b"\r"):
        message += "; its lines seem to end in CR alone, write them with LF"
    return Refused(number, "too_large", message, start, sha256)


def without_bom(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, b"")
    yield first.removeprefix(_BOM)
    yield from pieces
