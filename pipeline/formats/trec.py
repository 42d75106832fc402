"""TREC's two files: qrels, a judged document a line, are samples; a run, a retrieved document a line, is outputs."""

from collections.abc import Iterator, Sequence

from transforms.limits import Limits
from transforms.records import Long

from .bytestream import check_start
from .longlines import Layout, read_long

QRELS = Layout(("query", "iteration", "document", "relevance"), query=0, doc=2, value=3)
RUN = Layout(("query", "Q0", "document", "rank", "score", "tag"), query=0, doc=2, value=4, rank=3)


def peek(path: str) -> None:
    check_start(path)


def read_qrels(path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None) -> Iterator[Long]:
    return read_long(path, limits, block_rows, QRELS)


def read_run(path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None) -> Iterator[Long]:
    """The rank is read to be held against the score, never to rank by: trec_eval does not look at it either."""
    return read_long(path, limits, block_rows, RUN)
