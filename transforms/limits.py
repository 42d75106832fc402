"""How much of one record a reader will take, and what it says when a file cannot be read at all."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds on one record and on one file, the same in every format, so that none decides what a run needs."""

    line_bytes: int = 8 * MIB
    """Longest line of a text format, without its line ending."""
    cell_bytes: int = 8 * MIB
    """Longest text in a record."""
    depth: int = 64
    """Deepest nesting of a record; the record itself is level 1."""
    list_items: int = 2_000_000
    """Most items of a list, or of a map, in a record."""
    file_bytes: int = 256 * MIB
    """What a compressed file may unpack to, however small it is."""
    file_ratio: int = 500
    """What a larger one may unpack to, as a multiple of its size. Real data stays under 100, and what was made to
    be small, such as one ranking for every query, under 400; gzip's most is 1,030."""

    def check_expansion(self, path: str, unpacked: int, stored: int) -> None:
        """Raises BrokenInput where a file has unpacked to more than so many stored bytes may."""
        if unpacked > max(self.file_bytes, self.file_ratio * stored):
            raise BrokenInput(
                path,
                f"unpacks to more than {unpacked >> 20} MiB from {stored} bytes; if that is meant, raise"
                f" limits.file_bytes (now {self.file_bytes}) or limits.file_ratio (now {self.file_ratio}) in the plan",
            )


DEFAULTS = Limits()

LARGEST = {"line_bytes": 1 << 30, "cell_bytes": 1 << 30, "depth": 200, "list_items": 1 << 30}
"""How far a limit may be raised: past that, the steps themselves would not hold."""


class BrokenInput(Exception):
    """A file that cannot be read to its end. `str()` is one line: the file, what is wrong with it, what to do."""

    def __init__(self, path: str, reason: str) -> None:
        # Both go to `args`, or the exception would not survive the pickling between worker processes.
        super().__init__(path, reason)
        self.path = path
        self.reason = " ".join(reason.split())

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
