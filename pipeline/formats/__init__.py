"""Input formats: one file each, all with one face. A format turns a file into raw blocks and interprets no field."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from transforms.ledger import SIDES
from transforms.limits import Limits
from transforms.order import Queries
from transforms.records import Columns, Lines, Long, Refused, Rows

from . import autorag, avro, beir, json_map, jsonl, parquet, trec, yaml

Block = Lines | Rows | Columns | Refused | Long | Queries
Read = Callable[[str, Limits, int, Sequence[str] | None], Iterator[Any]]


@dataclass(frozen=True)
class Format:
    """A way to read files. `peek` is a cheap look that raises BrokenInput; `names` tells the top-level fields of a file
    that has a schema, and is None for the others."""

    name: str
    suffixes: tuple[str, ...]
    read: Read
    peek: Callable[[str], None]
    names: Callable[[str], tuple[str, ...]] | None = None
    read_outputs: Read | None = None
    """Where outputs are written otherwise than samples; `read` is then for samples."""
    sides: tuple[str, ...] = tuple(SIDES)
    named: bool = False
    """Whether its records have named fields, which a plan may map."""
    long: bool = False
    """One line a document: its blocks are `Long`, and are to be grouped."""
    pattern: str | None = None
    """A name that means this format though its suffix alone would not."""

    def reader(self, side: str) -> Read:
        return self.read_outputs if side == "outputs" and self.read_outputs is not None else self.read


def _packed(*suffixes: str) -> tuple[str, ...]:
    """Text may be compressed as a whole; Parquet and Avro compress inside."""
    return tuple(suffix + packing for suffix in suffixes for packing in ("", ".gz", ".zst"))


# `.tsv` and `.txt` may be anything, unless the file, or BEIR's folder of them, is called qrels.
_BEIR_NAME = r"(?:^|/)qrels(?:[^/]*|/[^/]+)\.tsv(?:\.gz|\.zst)?$"
_TREC_NAME = r"(?:^|/)qrels[^/]*\.txt(?:\.gz|\.zst)?$"

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("jsonl", _packed(".jsonl", ".ndjson"), jsonl.read, jsonl.peek, named=True),
        Format("parquet", (".parquet", ".pq"), parquet.read, parquet.peek, parquet.names, named=True),
        Format("avro", (".avro",), avro.read, avro.peek, avro.names, named=True),
        Format("yaml", _packed(".yaml", ".yml"), yaml.read, yaml.peek, named=True),
        Format(
            "trec", _packed(".qrels", ".run", ".trec"), trec.read_qrels, trec.peek,
            read_outputs=trec.read_run, long=True, pattern=_TREC_NAME,
        ),
        Format("beir", (), beir.read, beir.peek, sides=("samples",), long=True, pattern=_BEIR_NAME),
        Format("autorag", (), autorag.read, autorag.peek, autorag.names, sides=("samples",)),
        # `.json` may as well be JSON lines or a list of records, so it never names a format.
        Format("json", (), json_map.read_qrels, json_map.peek, read_outputs=json_map.read_run),
    )
}  # fmt: skip


def guess(path: str) -> str | None:
    """The format that a name, or a pattern, promises."""
    lowered = path.lower()
    for form in FORMATS.values():
        if lowered.endswith(form.suffixes) or (form.pattern and re.search(form.pattern, lowered)):
            return form.name
    return None


def peek(path: str, format: str) -> None:
    """Raises BrokenInput if a first look already says that the file cannot be read as this format."""
    FORMATS[format].peek(path)
