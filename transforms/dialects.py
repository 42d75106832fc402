"""The conventions by which the same ranking gets different numbers, as data.

A metric gives one value or says that there is none; a dialect says what becomes of the second case, and which metrics
there are. Choosing a dialect is the plan's business; the spelling of a metric never does it.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from .metrics.catalog import CATALOG, Metric


class UnknownDialect(ValueError):
    """A word that names no dialect, or a metric that the dialect does not have. The message is one line."""


@dataclass(frozen=True)
class Dialect:
    name: str
    title: str
    no_relevant: float | None
    """What a sample scores whose gold holds nothing relevant; None: undefined, a null outside the mean."""
    metrics: tuple[str, ...]
    """Names of the catalogue that have a meaning in this dialect."""


STANDARD = Dialect(
    name="standard",
    title="textbook definitions; a sample with nothing relevant has no score",
    no_relevant=None,
    metrics=tuple(CATALOG),
)
TREC = Dialect(
    name="trec",
    title="as trec_eval -c: the standard, but a sample with nothing relevant scores 0 and counts",
    no_relevant=0.0,
    metrics=tuple(CATALOG),
)

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (STANDARD, TREC)}


def find(name: str) -> Dialect:
    """The dialect of that name."""
    if name in DIALECTS:
        return DIALECTS[name]
    close = difflib.get_close_matches(name.lower(), DIALECTS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(DIALECTS)}"
    raise UnknownDialect(f"unknown dialect {name[:40]!r}: {hint}")


def require(dialect: Dialect, metrics: Iterable[Metric]) -> None:
    """Refuse metrics that the dialect does not have, naming those it has."""
    lacking = sorted({metric.name for metric in metrics} - set(dialect.metrics))
    if lacking:
        raise UnknownDialect(f"dialect {dialect.name} has no {', '.join(lacking)}; it has {', '.join(dialect.metrics)}")
