"""What a Parquet file really holds, from its page headers, before any of it is unpacked.

A footer may say one megabyte where the pages hold twenty gigabytes, and both may be honest: a dictionary of one long
text and a run-length "this one, twenty thousand times" fit in three hundred bytes. The page headers tell how many
values there are, how large each page unpacks and which pages lean on a dictionary; reading them costs microseconds a
page. They also answer what the footer cannot: whether a column is dictionary-encoded to its end.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from transforms.limits import MIB
from transforms.records import Ints

from .thrift import Malformed, read_struct

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DICTIONARY_ENCODINGS = (2, 8)
_DELTA_BYTE_ARRAY = 7
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_LARGEST_HEADER = 16 * MIB
_MOST_LEVELS = 64 * MIB
DEEPEST_SCHEMA = 200
_MAGIC = b"PAR1"


class Unsound(Exception):
    """A file that is damaged, or that would take more memory than it should. The message is for its owner."""


@dataclass(frozen=True)
class Page:
    """A data page: where its body lies, what it unpacks to and how it is encoded."""

    offset: int
    compressed: int
    unpacked: int
    values: int
    dictionary: bool
    prefixes: bool
    """Whether texts are stored as what they share with the one before and what they add to it."""
    level_bytes: int | None
    """Bytes of repetition levels in front of the body, outside its compression; None in pages of the first version."""


@dataclass(frozen=True)
class Chunk:
    """One column of one row group."""

    path: str
    codec: str
    physical: str
    width: int
    """Bytes of a value of a fixed-length type; 0 for the others."""
    repeated: int
    """Lists around the value: 0 for a plain column."""
    compressed: int
    dictionary: Page | None
    pages: list[Page]

    @property
    def values(self) -> int:
        return sum(page.values for page in self.pages)

    @property
    def largest_pages(self) -> int:
        """Bytes of the pages that a reader holds unpacked at one time."""
        dictionary = self.dictionary.unpacked if self.dictionary else 0
        return dictionary + max((page.unpacked for page in self.pages), default=0)


@dataclass(frozen=True)
class Group:
    """A row group as the footer has it: its rows, and its column chunks as raw structs."""

    rows: int
    columns: list[dict[int, Any]]


def read_footer(file: pa.NativeFile) -> list[Group]:
    """Raises Unsound unless the file ends as Parquet does, with a schema that is safe to hand to a library.

    Read here because pyarrow can be trusted with neither of two things in a damaged footer: it walks the schema by
    recursion (450 KB of groups nested 50,000 deep end the process), and it aborts when asked for the metadata of a
    column chunk whose size statistics do not add up. Reading the data itself, it raises.
    """
    size = file.size()
    if size < 12:
        raise Unsound("is too short for a Parquet file; fetch it again")
    start = _read_at(file, 0, 4)
    if start == b"PARE":
        raise Unsound("is an encrypted Parquet file; decrypt it first")
    if start != _MAGIC:
        raise Unsound("does not start as a Parquet file does; check its format")
    length, end = struct.unpack("<I4s", _read_at(file, size - 8, 8))
    if end != _MAGIC:
        raise Unsound("does not end as a Parquet file does: cut short, or still being written; fetch it again")
    if length > size - 12:
        raise Unsound("has a footer longer than the file; write or fetch it again")
    try:
        footer, _ = read_struct(_read_at(file, size - 8 - length, length), 0)
        depth = _schema_depth(footer[2])
        groups = [Group(group[3], [column[3] for column in group[1]]) for group in footer[4]]
    except (LookupError, TypeError, AttributeError, Malformed) as error:
        raise Unsound("has a damaged footer; write or fetch it again") from error
    if depth > DEEPEST_SCHEMA:
        raise Unsound(f"has a schema nested more than {DEEPEST_SCHEMA} deep; write it with a flatter one")
    return groups


def survey(file: pa.NativeFile, group: Group, leaf: int, described: Any) -> Chunk:
    """Walks the page headers of one column chunk. `described` is its entry in pyarrow's schema."""
    damaged = f"column {described.path} has damaged pages; write or fetch the file again"
    dictionary = None
    pages: list[Page] = []
    seen = 0
    try:
        column = group.columns[leaf]
        codec, promised, stored = _CODECS[column[4]], column[5], column[7]
        at = min(offset for offset in (column[9], column.get(11)) if offset)
        # Some old writers leave a dictionary page's header, under a hundred bytes, out of the total.
        end = min(at + stored + 100, file.size())
        while seen < promised:
            header, at = _page_header(file, at, end)
            kind, page = _page(header, at)
            if not 0 <= header[3] <= end - at or (page and min(page.unpacked, page.values) < 0):
                raise Unsound(damaged)
            if page and kind == _DICTIONARY:
                dictionary = page
            elif page:
                pages.append(page)
                seen += page.values
            at += header[3]
    except (LookupError, TypeError, ValueError) as error:
        raise Unsound(damaged) from error
    physical = described.physical_type
    width = max(0, described.length) if physical == "FIXED_LEN_BYTE_ARRAY" else 0
    return Chunk(described.path, codec, physical, width, described.max_repetition_level, stored, dictionary, pages)


def _page(header: dict[int, Any], at: int) -> tuple[int, Page | None]:
    """Kind and content of the page whose body lies at this offset; None for an index page, which is passed over."""
    kind, unpacked, compressed = header[1], header[2], header[3]
    if kind == _DICTIONARY:
        return kind, Page(at, compressed, unpacked, header[7][1], False, False, None)
    if kind == _DATA:
        values, encoding, levels = header[5][1], header[5][2], None
    elif kind == _DATA_V2:
        values, encoding, levels = header[8][1], header[8][4], header[8][6]
    else:
        return kind, None
    prefixes = encoding == _DELTA_BYTE_ARRAY
    return kind, Page(at, compressed, unpacked, values, encoding in _DICTIONARY_ENCODINGS, prefixes, levels)


def longest_entry(file: pa.NativeFile, chunk: Chunk) -> int:
    """Bytes of the longest text in the chunk's dictionary."""
    if chunk.dictionary is None:
        return 0
    body = _unpack(file, chunk.codec, chunk.dictionary)
    if body is None:
        return chunk.dictionary.unpacked
    values, rest = chunk.dictionary.values, len(body)
    if values and rest % values == 0 and rest // values >= 4:
        # Ids are often all of one length, and then every one of them starts where the first says.
        sizes = np.ndarray(values, "<u4", body, strides=(rest // values,))
        if (sizes == rest // values - 4).all():
            return rest // values - 4
    at = longest = 0
    last = len(body) - 4
    read = struct.Struct("<I").unpack_from
    while at <= last:
        (size,) = read(body, at)
        if size > longest:
            longest = size
        at += 4 + size
    return min(longest, len(body))


def longest_row(file: pa.NativeFile, chunk: Chunk) -> int:
    """Most values that one row of a list column holds, read off the repetition levels. All of them if unreadable."""
    longest = running = 0
    for page in chunk.pages:
        starts = _row_starts(file, chunk, page)
        if starts is None:
            return chunk.values
        if not len(starts):
            running += page.values
            continue
        longest = max(longest, running + int(starts[0]), int(np.diff(starts).max(initial=0)))
        running = page.values - int(starts[-1])
    return max(longest, running)


def _row_starts(file: pa.NativeFile, chunk: Chunk, page: Page) -> Ints | None:
    """Where in a page rows start: the places of its zero levels. None if the page cannot or should not be unpacked."""
    if page.values > _MOST_LEVELS:
        return None
    if page.level_bytes is not None:
        return _zeros(_read_at(file, page.offset, page.level_bytes), chunk.repeated.bit_length(), page.values)
    body = _unpack(file, chunk.codec, page)
    if body is None:
        return None
    return _zeros(body[4 : 4 + int.from_bytes(body[:4], "little")], chunk.repeated.bit_length(), page.values)


def _zeros(data: bytes, bits: int, values: int) -> Ints:
    """Places of the zeros in Parquet's mix of run-length and bit-packed runs. Only the runs are looped over."""
    width = (bits + 7) // 8
    zero_runs: list[tuple[int, int]] = []
    packed_runs: list[tuple[int, int, int]] = []
    at = filled = 0
    while filled < values and at < len(data):
        head = data[at]
        at += 1
        if head > 127:
            head &= 127
            for shift in range(7, 35, 7):
                if at >= len(data):
                    break
                head |= (data[at] & 127) << shift
                at += 1
                if data[at - 1] < 128:
                    break
        count = head >> 1
        if head & 1:
            size = min(count * bits, len(data) - at)
            packed_runs.append((filled, at, size - size % bits))
            at += size
            filled += count * 8
        else:
            if not any(data[at : at + width]):
                zero_runs.append((filled, min(count, values - filled)))
            at += width
            filled += count
    runs = np.array(zero_runs, np.int64).reshape(-1, 2)
    packed = np.array(packed_runs, np.int64).reshape(-1, 3)
    levels = np.unpackbits(np.frombuffer(data, np.uint8)[_ranges(packed[:, 1], packed[:, 2])], bitorder="little")
    places = _ranges(packed[:, 0], packed[:, 2] * 8 // bits)[~levels.reshape(-1, bits).any(axis=1)]
    found: Ints = np.sort(np.concatenate((_ranges(runs[:, 0], runs[:, 1]), places[places < values])))
    return found


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """start, start + 1, ... for each start, so many of them."""
    before: Ints = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _unpack(file: pa.NativeFile, codec: str, page: Page) -> bytes | None:
    """The body of a page, or None where its codec is not at hand (Hadoop's LZ4)."""
    body = _read_at(file, page.offset, page.compressed)
    if codec == "UNCOMPRESSED":
        return body
    if codec not in ("SNAPPY", "GZIP", "BROTLI", "ZSTD"):
        return None
    unpacked: bytes = pa.Codec(codec.lower()).decompress(body, decompressed_size=page.unpacked, asbytes=True)
    return unpacked


def _page_header(file: pa.NativeFile, at: int, end: int) -> tuple[dict[int, Any], int]:
    """A page header has no length: take a little, and more if it ran out (statistics can be long texts)."""
    window = 256
    while True:
        data = _read_at(file, at, min(window, end - at))
        try:
            header, size = read_struct(data, 0)
            return header, at + size
        except IndexError as error:
            if len(data) < window or window >= _LARGEST_HEADER:
                raise Malformed("no page header") from error
            window *= 16


def _schema_depth(elements: list[dict[int, Any]]) -> int:
    """Depth of the tree that the footer's schema, a list in depth-first order, stands for."""
    deepest = 0
    left: list[int] = []
    for element in elements:
        while left and not left[-1]:
            left.pop()
        if left:
            left[-1] -= 1
        if element.get(5):
            left.append(element[5])
            deepest = max(deepest, len(left))
    return deepest


def _read_at(file: pa.NativeFile, offset: int, size: int) -> bytes:
    if size < 0 or not 0 <= offset <= file.size():
        raise Malformed("bytes outside the file")
    data: bytes = file.read_at(size, offset)
    return data
