"""The bytes of a file: local or remote, plain or compressed, always in bounded pieces."""

import os
import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

import pyarrow as pa

from transforms.limits import BrokenInput, Limits

# Larger pieces fall out of the processor's cache: 4 MiB is a sixth slower than 1 MiB.
CHUNK = 1 << 20
HEAD = 4096

_COMPRESSED_NAMES = {".gz": "gzip", ".zst": "zstd"}
# A zstd file may open with a skippable frame, whose magic ends in 50 to 5F.
_COMPRESSED_MAGIC = re.compile(rb"(?P<gzip>\x1f\x8b)|(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)", re.DOTALL)
_FOREIGN_MAGIC = (
    (b"PAR1", "is a Parquet file; say so with the format option or name it .parquet"),
    (b"Obj\x01", "is an Avro file; say so with the format option or name it .avro"),
    (b"PK\x03\x04", "is a zip archive; unpack it first"),
    (b"BZh", "is compressed with bzip2; use .gz or .zst"),
    (b"\xfd7zXZ\x00", "is compressed with xz; use .gz or .zst"),
)


def is_remote(path: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Whatever a library raises over the bytes of a file leaves as BrokenInput.

    The list of types is wide because that is what corrupt bytes bring out of pyarrow: ArrowInvalid is a ValueError,
    ArrowMemoryError a MemoryError, a bad Thrift footer a bare OSError.
    """
    try:
        yield
    except OSError as error:
        # One with a number comes from the system, and speaks for itself; the others are about the bytes.
        trouble = os.strerror(error.errno) if error.errno else f"{error}; fetch or write it again"
        raise BrokenInput(path, f"cannot be read: {trouble}") from error
    except (ValueError, MemoryError, NotImplementedError, RuntimeError, LookupError, TypeError, EOFError) as error:
        raise BrokenInput(path, f"cannot be read: {error}; fetch or write it again") from error


def open_raw(path: str) -> pa.NativeFile:
    """The bytes as stored. The caller closes it."""
    if not is_remote(path):
        if os.path.isdir(path):
            raise BrokenInput(path, "is a directory; name the files in it, for example with a pattern")
        with reading(path):
            return pa.OSFile(path)
    # Imported here: a local run of a plain function should not pay for Beam.
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    try:
        return pa.PythonFile(FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED), mode="r")
    except Exception as error:  # each store brings its own types; all of them mean that the file did not open
        raise BrokenInput(path, f"cannot be opened: {error}") from error


def chunks(path: str, limits: Limits, size: int = CHUNK) -> Generator[bytes, None, None]:
    """Pieces of at most `size` bytes, unpacked. The first piece was checked to be text.

    pyarrow unpacks: it reads on across the members of a gzip and the frames of a zstd file, says when either breaks
    off, and never unpacks more than was asked for, so a bomb costs no memory, and time only up to its limit.
    """
    with reading(path), closing(open_raw(path)) as raw:
        compression = _compression(path, raw)
        stream = pa.CompressedInputStream(raw, compression) if compression else raw
        piece = stream.read(size)
        check_text(path, piece[:HEAD])
        unpacked = 0
        while piece:
            unpacked += len(piece)
            if compression:
                limits.check_expansion(path, unpacked, raw.tell())
            yield piece
            piece = stream.read(size)


def check_start(path: str) -> None:
    """Whether the file opens, unpacks and starts as text does."""
    with closing(chunks(path, Limits(), HEAD)) as pieces:
        next(pieces, b"")


def check_text(path: str, head: bytes) -> None:
    encoding = _wide_encoding(head)
    if encoding:
        raise BrokenInput(path, f"looks like {encoding}; save it as UTF-8")
    for magic, verdict in _FOREIGN_MAGIC:
        if head.startswith(magic):
            raise BrokenInput(path, verdict)


def _compression(path: str, raw: pa.NativeFile) -> str | None:
    """What the first bytes say; a name that promises compression must keep its word.

    No text starts with these bytes, so a file without the suffix is recognised too. An empty .gz is not an empty
    shard: even an empty gzip file has a header, so something was lost.
    """
    found = _COMPRESSED_MAGIC.match(raw.read(4))
    raw.seek(0)
    promised = _COMPRESSED_NAMES.get(os.path.splitext(path)[1].lower())
    if found:
        return found.lastgroup
    if promised:
        raise BrokenInput(path, f"does not start as {promised} does; fetch it again, or drop the suffix if it is text")
    return None


def _wide_encoding(head: bytes) -> str | None:
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    # Without a byte order mark: ASCII in two or four bytes leaves the others NUL. UTF-8 text never holds a NUL, but
    # one stray NUL must not condemn a file, hence the shares.
    shares = [head[lane::4].count(0) / max(1, len(head[lane::4])) for lane in range(4)]
    empty = [share > 0.6 for share in shares]
    if empty in ([True, False, True, False], [False, True, False, True]):
        return "UTF-16"
    if empty in ([True, True, True, False], [False, True, True, True]):
        return "UTF-32"
    return None
