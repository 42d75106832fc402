"""Avro: records by fastavro, out of blocks that are unpacked and bounded here.

fastavro unpacks a block whatever it comes to, and hands logical types out as objects. So it is given a stream of its
own: the same blocks, already unpacked within a bound, behind a header with a schema that was looked at first.
"""

import bz2
import io
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import IO, Any, cast

import fastavro
import pyarrow as pa

from transforms.limits import MIB, BrokenInput, Limits
from transforms.records import Columns, Lines, Refused, Rows

from .avro_schema import Schema
from .bytestream import open_raw, reading

BLOCK_ROWS = 4096
"""Records are Python objects here, many times their bytes in the file: blocks are smaller than elsewhere."""
BLOCK_BYTES = 64 * MIB
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_LARGEST_HEADER = 4 * MIB


def peek(path: str) -> None:
    names(path)


def names(path: str) -> tuple[str, ...]:
    """The fields of the file's records."""
    with _opened(path, Limits()) as source:
        return source.schema.names


def read(
    path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None
) -> Iterator[Lines | Rows | Columns | Refused]:
    """Records as dicts of the wanted fields. A text that is not UTF-8 breaks the file: its end cannot be found."""
    most = min(block_rows, BLOCK_ROWS)
    numbers: list[int] = []
    records: list[Any] = []
    number = 0
    with _opened(path, limits) as source:
        if columns is not None and not set(columns) & set(source.schema.names):
            raise BrokenInput(
                path, f"has none of the fields {' '.join(columns)}; it has {' '.join(source.schema.names)}"
            )
        for record in _records(path, source, columns):
            number += 1
            numbers.append(number)
            records.append(record)
            if len(records) >= most:
                yield Rows(numbers, records)
                numbers, records = [], []
    if records:
        yield Rows(numbers, records)


def _records(path: str, source: "_Unpacked", columns: Sequence[str] | None) -> Iterator[Any]:
    # Unwanted fields are dropped, not skipped: with a reader's schema fastavro takes twice as long for nested lists.
    dropped = [] if columns is None else [name for name in source.schema.names if name not in columns]
    done = 0
    try:
        # fastavro's stubs ask for a whole file and leave out what a block is made of.
        blocks: Any = fastavro.block_reader(cast(IO[bytes], source))
        for block in blocks:
            for record in block:
                for name in dropped:
                    del record[name]
                yield record
                done += 1
            if block.bytes_.read(1):
                raise ValueError("a block holds more than the records it promises")
    except (ValueError, LookupError, TypeError, ArithmeticError, EOFError, MemoryError, struct.error) as error:
        raise BrokenInput(path, f"is damaged after record {done} ({error}); write or fetch it again") from error


@contextmanager
def _opened(path: str, limits: Limits) -> Iterator["_Unpacked"]:
    with reading(path), closing(open_raw(path)) as raw:
        yield _Unpacked(path, io.BufferedReader(raw, MIB), limits)


class _Unpacked:
    """An Avro file as fastavro is to see it: codec null, schema checked. Only `read` and `tell` are asked of it."""

    def __init__(self, path: str, raw: io.BufferedReader, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._stored = self._unpacked = 0
        self._raw = raw
        if raw.read(4) != _MAGIC:
            raise BrokenInput(path, "does not start as an Avro file does; check its format")
        header = self._header()
        self._codec = header.get("avro.codec", b"null").decode("ascii", "replace")
        if self._codec not in _CODECS:
            raise BrokenInput(path, f"is packed with {self._codec}; write it with one of {' '.join(_CODECS)}")
        try:
            self.schema = Schema(header.get("avro.schema", b""))
        except ValueError as error:
            raise BrokenInput(path, str(error)) from error
        self._sync = self._exactly(_SYNC_BYTES)
        schema = json.dumps(self.schema.written()).encode()
        head = _long(2) + _text(b"avro.schema") + _text(schema) + _text(b"avro.codec") + _text(b"null") + _long(0)
        self._ready = io.BytesIO(_MAGIC + head + self._sync)
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        """As of a file: fewer bytes than asked only at the end."""
        found = self._ready.read(size)
        while (size < 0 or len(found) < size) and self._next_block():
            found += self._ready.read(size - len(found) if size >= 0 else -1)
        self._given += len(found)
        return found

    def tell(self) -> int:
        return self._given

    def _next_block(self) -> bool:
        if not self._raw.peek(1):
            return False
        count, size = self._varint(), self._varint()
        if count < 0 or not 0 <= size <= BLOCK_BYTES:
            raise BrokenInput(
                self._path, f"has a block of {size} bytes, the limit is {BLOCK_BYTES}; write smaller blocks"
            )
        packed = self._exactly(size)
        if self._exactly(_SYNC_BYTES) != self._sync:
            raise BrokenInput(self._path, "is damaged: a block does not end where it says; write or fetch it again")
        try:
            body = _CODECS[self._codec](packed)
        except (ValueError, OSError, zlib.error, lzma.LZMAError, EOFError) as error:
            raise BrokenInput(
                self._path, f"has a block that does not unpack ({error}); write or fetch it again"
            ) from error
        self._stored += len(packed)
        self._unpacked += len(body)
        self._limits.check_expansion(self._path, self._unpacked, self._stored)
        self._ready = io.BytesIO(_long(count) + _text(body) + self._sync)
        return True

    def _header(self) -> dict[str, bytes]:
        """The file's metadata: a map from names to bytes, in blocks with an optional size."""
        found: dict[str, bytes] = {}
        taken = 0
        while count := self._varint():
            if count < 0:
                count = -count
                self._varint()
            for _ in range(count):
                pair = []
                for _ in range(2):
                    size = self._varint()
                    taken += max(1, size)
                    if size < 0 or taken > _LARGEST_HEADER:
                        raise BrokenInput(
                            self._path, f"has a header of more than {_LARGEST_HEADER} bytes, or a damaged one"
                        )
                    pair.append(self._exactly(size))
                found[pair[0].decode("utf-8", "replace")] = pair[1]
        return found

    def _exactly(self, size: int) -> bytes:
        data = self._raw.read(size)
        if len(data) < size:
            raise BrokenInput(self._path, "breaks off; fetch it again")
        return data

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._exactly(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
        raise BrokenInput(self._path, "is damaged: a number does not end; write or fetch it again")


def _long(value: int) -> bytes:
    value = value << 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(data: bytes) -> bytes:
    return _long(len(data)) + data


def _bounded(body: bytes, finished: bool) -> bytes:
    if len(body) > BLOCK_BYTES:
        raise ValueError(f"more than {BLOCK_BYTES} bytes")
    if not finished:
        raise ValueError("it breaks off")
    return body


def _inflate(packed: bytes) -> bytes:
    stream = zlib.decompressobj(-15)
    body = stream.decompress(packed, BLOCK_BYTES + 1)
    return _bounded(body, stream.eof)


def _unzstd(packed: bytes) -> bytes:
    """In small pieces: asked for all that a block may hold, the stream would set that much memory aside."""
    body = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        while len(body) <= BLOCK_BYTES and (piece := stream.read(MIB)):
            body += piece
    return _bounded(bytes(body), True)


def _unsnap(packed: bytes) -> bytes:
    """A snappy block says first how long it will be, and ends in a checksum of what it was."""
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    _bounded(b"", size <= BLOCK_BYTES)
    body: bytes = pa.Codec("snappy").decompress(packed[:-4], decompressed_size=size, asbytes=True)
    if zlib.crc32(body).to_bytes(4, "big") != packed[-4:]:
        raise ValueError("its checksum does not match")
    return body


def _unbzip2(packed: bytes) -> bytes:
    stream = bz2.BZ2Decompressor()
    return _bounded(stream.decompress(packed, BLOCK_BYTES + 1), stream.eof)


def _unxz(packed: bytes) -> bytes:
    stream = lzma.LZMADecompressor()
    return _bounded(stream.decompress(packed, BLOCK_BYTES + 1), stream.eof)


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflate,
    "zstandard": _unzstd,
    "snappy": _unsnap,
    "bzip2": _unbzip2,
    "xz": _unxz,
}
