"""Input formats: one file each, all with one face. A format turns a file into raw blocks and interprets no field."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from transforms.limits import Limits
from transforms.records import Columns, Lines, Refused, Rows

from . import avro, jsonl, parquet, yaml

Block = Lines | Rows | Columns | Refused


@dataclass(frozen=True)
class Format:
    """A way to read files. `peek` is a cheap look that raises BrokenInput; `names` tells the top-level fields of a file
    that has a schema, and is None for the others."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[str, Limits, int, Sequence[str] | None], Iterator[Block]]
    peek: Callable[[str], None]
    names: Callable[[str], tuple[str, ...]] | None = None


def _packed(*suffixes: str) -> tuple[str, ...]:
    """Text may be compressed as a whole; Parquet and Avro compress inside."""
    return tuple(suffix + packing for suffix in suffixes for packing in ("", ".gz", ".zst"))


FORMATS: dict[str, Format] = {
    "jsonl": Format("jsonl", _packed(".jsonl", ".ndjson"), jsonl.read, jsonl.peek),
    "parquet": Format("parquet", (".parquet", ".pq"), parquet.read, parquet.peek, parquet.names),
    "avro": Format("avro", (".avro",), avro.read, avro.peek, avro.names),
    "yaml": Format("yaml", _packed(".yaml", ".yml"), yaml.read, yaml.peek),
}


def guess(path: str) -> str | None:
    """The format that a name, or a pattern, promises."""
    lowered = path.lower()
    return next((form.name for form in FORMATS.values() if lowered.endswith(form.suffixes)), None)


def peek(path: str, format: str) -> None:
    """Raises BrokenInput if a first look already says that the file cannot be read as this format."""
    FORMATS[format].peek(path)
