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

from .thrift import Malformed, field_header, list_header, read_struct, read_value

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DICTIONARY_ENCODINGS = (2, 8)
_DELTA_BYTE_ARRAY = 7
_LARGEST_HEADER = 16 * MIB
DEEPEST_SCHEMA = 200
_MAGIC = b"PAR1"


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


def check_footer(file: pa.NativeFile) -> None:
    """Raises ValueError unless the file ends as Parquet does, with a schema that is safe to hand to a library.

    pyarrow walks a schema by recursion: 450 KB of groups nested 50,000 deep end the process, not the read.
    """
    size = file.size()
    if size < 12:
        raise ValueError("too short for a Parquet file; fetch it again")
    file.seek(0)
    start = file.read(4)
    if start == b"PARE":
        raise ValueError("is an encrypted Parquet file; decrypt it first")
    if start != _MAGIC:
        raise ValueError("does not start as a Parquet file does; check its format")
    length, end = struct.unpack("<I4s", _read_at(file, size - 8, 8))
    if end != _MAGIC:
        raise ValueError("does not end as a Parquet file does: cut short, or still being written; fetch it again")
    if length > size - 12:
        raise ValueError("has a footer longer than the file; write or fetch it again")
    try:
        depth = _schema_depth(_read_at(file, size - 8 - length, length))
    except (IndexError, Malformed) as error:
        raise ValueError(f"has a damaged footer ({error}); write or fetch it again") from error
    if depth > DEEPEST_SCHEMA:
        raise ValueError(f"has a schema nested more than {DEEPEST_SCHEMA} deep; write it with a flatter one")


def survey(file: pa.NativeFile, column: Any, described: Any) -> Chunk:
    """Walks the page headers of one column chunk. `column` is its metadata, `described` its entry in the schema."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end = min(at + column.total_compressed_size, file.size())
    dictionary = None
    pages: list[Page] = []
    seen = 0
    while seen < column.num_values:
        try:
            header, at = _page_header(file, at, end)
            kind, page = _page(header, at)
        except (IndexError, KeyError, TypeError, Malformed) as error:
            raise ValueError(
                f"column {column.path_in_schema} has a damaged page header; fetch the file again"
            ) from error
        if page and (min(page.unpacked, page.compressed, page.values) < 0 or at + page.compressed > end):
            raise ValueError(f"column {column.path_in_schema} has a damaged page header; fetch the file again")
        if page and kind == _DICTIONARY:
            dictionary = page
        elif page:
            pages.append(page)
            seen += page.values
        at += header[3]
    return Chunk(
        column.path_in_schema,
        column.compression,
        column.physical_type,
        max(0, described.length) if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0,
        described.max_repetition_level,
        column.total_compressed_size,
        dictionary,
        pages,
    )


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
    at = longest = 0
    while at + 4 <= len(body):
        size = int.from_bytes(body[at : at + 4], "little")
        longest = max(longest, size)
        at += 4 + size
    return min(longest, len(body))


def longest_row(file: pa.NativeFile, chunk: Chunk) -> int:
    """Most values that one row of a list column holds, read off the repetition levels. All of them if unreadable."""
    longest = running = 0
    for page in chunk.pages:
        levels = _repetition_levels(file, chunk, page)
        if levels is None:
            return chunk.values
        starts = np.flatnonzero(levels == 0)
        if not len(starts):
            running += len(levels)
            continue
        inner = int(np.diff(starts).max(initial=0))
        longest = max(longest, running + int(starts[0]), inner)
        running = len(levels) - int(starts[-1])
    return max(longest, running)


def _repetition_levels(file: pa.NativeFile, chunk: Chunk, page: Page) -> Ints | None:
    if page.level_bytes is not None:
        body: bytes | None = _read_at(file, page.offset, page.level_bytes)
    else:
        body = _unpack(file, chunk.codec, page)
        if body is not None:
            body = body[4 : 4 + int.from_bytes(body[:4], "little")]
    return None if body is None else _hybrid(body, chunk.repeated.bit_length(), page.values)


def _hybrid(data: bytes, bits: int, values: int) -> Ints | None:
    """Decodes Parquet's mix of run-length and bit-packed runs. Bounded by what the page header promised.

    A page that promises more than a row may hold is not decoded: None.
    """
    if values > 64 * MIB:
        return None
    # One byte a level: the array may be long, the numbers in it are tiny.
    levels: Any = np.ones(values, np.int8)
    width = (bits + 7) // 8
    at = filled = 0
    while filled < values and at < len(data):
        head = shift = 0
        while at < len(data):
            byte = data[at]
            at += 1
            head |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        count = head >> 1
        if head & 1:
            size = min(count * bits, len(data) - at)
            packed = np.unpackbits(np.frombuffer(data, np.uint8, size, at), bitorder="little")
            packed = packed[: len(packed) - len(packed) % bits].reshape(-1, bits)[: values - filled]
            levels[filled : filled + len(packed)] = packed.any(axis=1)
            filled += len(packed)
            at += size
        else:
            count = min(count, values - filled)
            levels[filled : filled + count] = int(any(data[at : at + width]))
            filled += count
            at += width
    return levels  # type: ignore[no-any-return]  # numpy's own types do not carry through slices of Any


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


def _schema_depth(footer: bytes) -> int:
    """Depth of the tree that the footer's schema, a list in depth-first order, stands for."""
    number = at = 0
    while True:
        number, kind, at = field_header(footer, at, number)
        if not kind:
            raise Malformed("no schema")
        if number == 2:
            break
        _, at = read_value(footer, at, kind, 0)
    length, _, at = list_header(footer, at)
    deepest = 0
    left: list[int] = []
    for _ in range(length):
        element, at = read_struct(footer, at)
        while left and not left[-1]:
            left.pop()
        if left:
            left[-1] -= 1
        if element.get(5):
            left.append(element[5])
            deepest = max(deepest, len(left))
    return deepest


def _read_at(file: pa.NativeFile, offset: int, size: int) -> bytes:
    data: bytes = file.read_at(size, offset)
    return data
