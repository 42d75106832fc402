"""How much of one record a reader will take, and what it says when a file cannot be read at all."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds on one record, the same in every format, so that no single record decides how much memory a run needs."""

    line_bytes: int = 8 * MIB
    """Longest line of a text format, without its line ending."""
    cell_bytes: int = 8 * MIB
    """Longest text in one cell of a Parquet, Avro or YAML file."""
    depth: int = 64
    """Deepest nesting of a record; the record itself is level 1."""
    list_items: int = 2_000_000
    """Longest list in a record."""


class BrokenInput(Exception):
    """A file that cannot be read to its end. `str()` is one line: the file, what is wrong with it, what to do."""

    def __init__(self, path: str, reason: str) -> None:
        # Both go to `args`, or the exception would not survive the pickling between worker processes.
        super().__init__(path, reason)
        self.path = path
        self.reason = " ".join(reason.split())

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
