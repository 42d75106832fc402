"""The one place that knows a local path from a gs:// or s3:// address.

Local files are written to survive a power cut: fsync of the file, then of the folder that names it. On object stores a
write is whole or absent by nature, so the same calls are one put there. Remote bytes go through Beam's FileSystems,
imported on first use only: reading a local run must not pay for importing Beam.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, cast

from .errors import RankbeamError, UsageError
from .redact import redact

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_EXTRAS = {"gs": "rankbeam[gcp]", "s3": "rankbeam[aws]"}
# What a disk without hard links answers (exFAT, some network mounts). A full or read-only disk answers otherwise.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def scheme(path: str) -> str:
    """`gs`, `s3`, ...; the empty string for a local path."""
    found = _SCHEME.match(path)
    return found[1].lower() if found else ""


def normal(path: str) -> str:
    """The one spelling of a folder that the rest of the job uses: no file:// and no closing slash."""
    path = path[len("file://") :] if scheme(path) == "file" else path
    return path.rstrip("/") or path[:1]


def join(folder: str, *names: str) -> str:
    return "/".join((folder.rstrip("/"), *names))


class HashingFile:
    """A new file, hashed as it is written. What reached the disk is checked against this hash at the commit."""

    mode = "wb"

    def __init__(self, path: str) -> None:
        self.path = path
        self.closed = self.abandoned = False
        self._sha256 = hashlib.sha256()
        with naming(path, "write"):
            self._file = _create(path)

    def write(self, data: bytes) -> int:
        if self.abandoned:
            return len(data)
        with naming(self.path, "write"):
            self._file.write(data)
        self._sha256.update(data)
        return len(data)

    def flush(self) -> None:
        if self.abandoned:
            return
        with naming(self.path, "write"):
            self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with naming(self.path, "write"), self._file:
            if not scheme(self.path):
                self._file.flush()
                os.fsync(self._file.fileno())
        if not scheme(self.path):
            sync_folder(os.path.dirname(self.path))

    def abandon(self) -> None:
        """Give the file up as it is. Arrow's writer still adds a footer when it is let go of: that goes nowhere."""
        if not self.closed:
            self.abandoned = self.closed = True
            with suppress(OSError):
                self._file.close()

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


class Hold:
    """A lock on a local file. The kernel lets go of it when the holder dies, however it dies."""

    def __init__(self, file: int) -> None:
        self._file = file

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = release


def hold(path: str, alone: bool = False) -> Hold | None:
    """Hold an existing file, with others or alone; BlockingIOError if somebody's hold forbids it.

    None where there is nothing to hold: no such file, an object store, a disk without locks.
    """
    if scheme(path):
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise
    except OSError:
        os.close(file)
        return None
    return Hold(file)


def make_folder(path: str) -> None:
    """Make a new folder and its parents so that they outlive a crash; object stores have no folders to make."""
    if scheme(path):
        return
    with naming(path, "make"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        os.mkdir(path)
    for folder in (path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        sync_folder(folder)


def write_json(path: str, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=2, allow_nan=False).encode() + b"\n")


def write_whole(path: str, data: bytes) -> None:
    """Write `data` so that a reader sees all of it or none of it."""
    if scheme(path):
        with naming(path, "write"), _create(path) as file:
            file.write(data)
        return
    with _temporary(path, data) as temporary, naming(path, "write"):
        os.replace(temporary, path)
    sync_folder(os.path.dirname(path))


def read_whole(path: str) -> bytes | None:
    """The file's bytes, or None when there is no such file."""
    with naming(path, "read"):
        if not scheme(path):
            try:
                return Path(path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
        systems, kinds = _filesystems(path)
        if not systems.exists(path):
            return None
        with systems.open(path, compression_type=kinds.UNCOMPRESSED) as file:
            return cast(bytes, file.read())


def matching(folder: str, pattern: str) -> list[str]:
    """Names under `folder` that match `pattern`, relative to it, sorted. Finds pointers and results, never data."""
    with naming(folder, "list"):
        if not scheme(folder):
            return sorted(str(found.relative_to(folder)) for found in Path(folder).glob(pattern))
        found = _filesystems(folder)[0].match([join(folder, pattern)])[0].metadata_list
        return sorted(each.path[len(folder) + 1 :] for each in found)


def compare_and_set(path: str, expected: bytes | None, new: bytes) -> bool:
    """Put `new` at `path` if it holds `expected` right now (None: if nothing is there). False: it holds something else.

    Of several callers with one expectation exactly one gets True on a local disk, gs:// and s3://. Other stores offer
    no conditional write: there this is a look and then a put, and two launchers at once are not excluded.
    """
    swap = {"": _swap_local, "gs": _swap_gcs, "s3": _swap_s3}.get(scheme(path), _swap_unguarded)
    with naming(path, "publish"):
        return swap(path, expected, new)


@contextmanager
def naming(path: str, deed: str) -> Iterator[None]:
    """Turn what the disk or store answers (full, not permitted, not there) into one line that names the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or redact(str(error)) or type(error).__name__
        raise RankbeamError(f"cannot {deed} {redact(path)}: {reason}; nothing was published") from error


def sync_folder(path: str) -> None:
    """Make the names in a local folder durable: without this a crash can lose a file whose bytes are safe."""
    with naming(path, "sync"):
        folder = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _create(path: str) -> BinaryIO:
    if scheme(path):
        systems, kinds = _filesystems(path)
        return cast(BinaryIO, systems.create(path, compression_type=kinds.UNCOMPRESSED))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return open(path, "xb")


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Alone among those who swap or clean in this local folder."""
    with open(join(folder, ".lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _temporary(path: str, data: bytes) -> Iterator[str]:
    """`data`, durable, under a fresh hidden name beside `path`; gone afterwards unless it was renamed away."""
    folder, name = os.path.split(path)
    temporary = join(folder or ".", f".{name}-{secrets.token_hex(8)}")
    try:
        with naming(path, "write"), open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _swap_local(path: str, expected: bytes | None, new: bytes) -> bool:
    """A hard link is the disk's own "only if absent"; to replace, a lock makes compare and rename one step.

    Links and lock do not know of each other, and need not: the file is never removed, so a link can only win before
    any replacement has something to compare with.
    """
    folder = os.path.dirname(path)
    with _temporary(path, new) as temporary:
        if expected is None:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                sync_folder(folder)
                return True
        with locked(folder):
            if read_whole(path) != expected:
                return False
            os.replace(temporary, path)
            sync_folder(folder)
            return True


def _swap_gcs(path: str, expected: bytes | None, new: bytes) -> bool:
    storage, refused = _client("google.cloud.storage", path), _client("google.api_core.exceptions", path)
    bucket_name, _, name = path.split("://", 1)[1].partition("/")
    bucket = storage.Client().bucket(bucket_name)
    found = bucket.get_blob(name)
    generation = found.generation if found else 0  # 0 means "only if absent"
    try:
        if (found.download_as_bytes(if_generation_match=generation) if found else None) != expected:
            return False
        bucket.blob(name).upload_from_string(new, if_generation_match=generation)
    except refused.PreconditionFailed:
        return False
    return True


def _swap_s3(path: str, expected: bytes | None, new: bytes) -> bool:
    s3, refused = _client("boto3", path).client("s3"), _client("botocore.exceptions", path).ClientError
    bucket, _, key = path.split("://", 1)[1].partition("/")
    try:
        if expected is None:
            condition = {"IfNoneMatch": "*"}
        else:
            found = s3.get_object(Bucket=bucket, Key=key)
            if found["Body"].read() != expected:
                return False
            condition = {"IfMatch": found["ETag"]}
        s3.put_object(Bucket=bucket, Key=key, Body=new, **condition)
    except refused as error:
        if error.response["Error"]["Code"] in {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}:
            return False
        raise RankbeamError(f"cannot publish {redact(path)}: {error}") from error
    return True


def _swap_unguarded(path: str, expected: bytes | None, new: bytes) -> bool:
    if read_whole(path) != expected:
        return False
    write_whole(path, new)
    return True


def _client(module: str, path: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise _not_installed(path) from error


def _filesystems(path: str) -> tuple[Any, Any]:
    """Beam's FileSystems and CompressionTypes, once it is known that Beam can serve this kind of address."""
    module = import_module("apache_beam.io.filesystems")
    try:
        module.FileSystems.get_filesystem(path)
    except ValueError as error:
        raise _not_installed(path) from error
    return module.FileSystems, import_module("apache_beam.io.filesystem").CompressionTypes


def _not_installed(path: str) -> UsageError:
    extra = _EXTRAS.get(scheme(path))
    advice = f"install it with: pip install '{extra}'" if extra else "use a local path, gs:// or s3://"
    return UsageError(f"no support for {scheme(path)}:// is installed, needed for {redact(path)}; {advice}")
