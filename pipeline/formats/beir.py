"""BEIR's qrels: tab-separated, with or without its header. A quotation mark is part of an id like any other."""

from collections.abc import Iterator, Sequence

from transforms.limits import Limits
from transforms.records import Long

from .bytestream import check_start
from .longlines import Layout, read_long

QRELS = Layout(
    ("query-id", "corpus-id", "score"), query=0, doc=1, value=2, tabs=True, headings=("score", "relevance", "rel")
)


def peek(path: str) -> None:
    check_start(path)


def read(path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None) -> Iterator[Long]:
    return read_long(path, limits, block_rows, QRELS)
