"""What flows between the steps: the schemas of files and blocks, and the words for what became of a record.

This module imports nothing first-party, so that every step may import it.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]


class Status(IntEnum):
    """Why a metric row holds the value it holds. Blocks carry the number, files the lower-case name."""

    SCORED = 0
    MISSING_OUTPUT = 1
    BAD_OUTPUT = 2
    CONFLICT = 3
    NO_RELEVANT = 4
    ERROR = 5


STATUS_NAMES: tuple[str, ...] = tuple(status.name.lower() for status in Status)

# The files. Plain types on purpose: dictionary encoding is the writer's business, not the reader's.
PER_SAMPLE = pa.schema(
    [
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("k", pa.int32()),
        pa.field("value", pa.float64()),
        pa.field("status", pa.string(), nullable=False),
    ]
)

SUMMARY = pa.schema(
    [
        pa.field("metric", pa.string(), nullable=False),
        pa.field("k", pa.int32()),
        pa.field("slice", pa.string(), nullable=False),
        pa.field("slice_value", pa.string()),
        pa.field("mean", pa.float64()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("expected", pa.int64(), nullable=False),
        pa.field("missing", pa.int64(), nullable=False),
        pa.field("undefined", pa.int64(), nullable=False),
        pa.field("answered", pa.float64()),
        pa.field("std", pa.float64()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("p50", pa.float64()),
        pa.field("p95", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
    ]
)

REJECTED = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
        pa.field("code", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("preview", pa.string(), nullable=False),
        pa.field("sha256", pa.string()),
    ]
)


# The blocks that cross the shuffle. `at` holds where each copy of a record was read (see `place`); `defect` is an index
# into DEFECTS; `digest_*` are two lanes of one 128-bit digest of the record's content.
ENVELOPE = [
    pa.field("sample_id", pa.string()),
    pa.field("digest_high", pa.uint64()),
    pa.field("digest_low", pa.uint64()),
    pa.field("at", pa.list_(pa.int64())),
    pa.field("defect", pa.int8()),
]

DEFECTS: tuple[str, ...] = (
    *("", "bad_gold", "bad_output", "non_finite", "too_deep"),
    *("bad_utf8", "cell_too_large", "list_too_long"),
)


def sample_block(slice_by: tuple[str, ...], answers: bool) -> pa.Schema:
    """Samples on their way to the join: only what the plan needs of them."""
    fields = [
        *ENVELOPE,
        pa.field("k", pa.int32()),
        pa.field("kind", pa.int8()),
        pa.field("docs", pa.list_(pa.string())),
        pa.field("gains", pa.list_(pa.float64())),
        pa.field("groups", pa.list_(pa.int32())),
        pa.field("listed", pa.int32()),
        *(pa.field(f"slice:{name}", pa.list_(pa.string())) for name in slice_by),
    ]
    return pa.schema([*fields, pa.field("answer", pa.string())] if answers else fields)


def output_block(texts: bool) -> pa.Schema:
    """Outputs on their way to the join: only what the plan needs of them."""
    fields = [
        *ENVELOPE,
        pa.field("error", pa.bool_()),
        pa.field("length", pa.int32()),
        pa.field("docs", pa.list_(pa.string())),
        pa.field("ranks", pa.list_(pa.int32())),
    ]
    return pa.schema([*fields, pa.field("texts", pa.list_(pa.string()))] if texts else fields)


_NUMBER_BITS = 40


def place(file: int, numbers: Ints) -> Ints:
    """Where records were read, in one integer each: the number of their file in the job, their line or row in it."""
    return np.int64(file << _NUMBER_BITS) | numbers


def unplace(at: Any) -> tuple[Any, Any]:
    """The file's number and the line or row, of one place or of an array of them."""
    return at >> _NUMBER_BITS, at & (1 << _NUMBER_BITS) - 1


# What a format reader yields. Numbers are 1-based lines (text formats) or rows (the others).
@dataclass
class Lines:
    """JSON texts, one a record, not yet decoded; blank lines are already gone."""

    numbers: list[int]
    data: list[bytes]


@dataclass
class Rows:
    """Records already decoded to plain Python objects."""

    numbers: list[int]
    records: list[Any]


@dataclass
class Columns:
    """Records of a columnar file, row `first` onwards."""

    first: int
    batch: pa.RecordBatch
    numbers: list[int] | None = None
    """Where they were read, of records that do not follow one another."""
    ordered: bool = False
    """Whether lists were put in the order of their scores, and what that met was counted."""


@dataclass
class Refused:
    """A record that its reader gave up on before it could be decoded."""

    number: int
    code: str
    message: str
    preview: bytes
    sha256: str


@dataclass
class Long:
    """Lines of one file, a document each. What a reader of such a format yields."""

    numbers: Ints
    sample_ids: pa.StringArray
    docs: pa.StringArray
    values: Floats
    ranks: Floats | None
    """What the line says its rank is, NaN where that is no number; None in formats that have no rank."""
    lines: int
    """How many lines were read for this, those refused included."""
    refused: list[Refused] = field(default_factory=list)

    @classmethod
    def nothing(cls, refused: list[Refused]) -> "Long":
        none, texts = np.zeros(0), pa.array([], pa.string())
        return cls(np.zeros(0, np.int64), texts, texts, none, None, len(refused), refused)

    def part(self, start: int, stop: int) -> "Long":
        """Some of the lines. The first part has what was refused."""
        ranks = None if self.ranks is None else self.ranks[start:stop]
        refused = [] if start else self.refused
        numbers = self.numbers[start:stop]
        texts = (self.sample_ids[start:stop], self.docs[start:stop])
        return Long(numbers, *texts, self.values[start:stop], ranks, len(numbers) + len(refused), refused)


@dataclass
class MetricRows:
    """The metric rows of one block of samples, metric-major: row m of each matrix belongs to metric m of the plan."""

    sample_ids: pa.StringArray
    outcome: Codes
    """What the sample's output came to, int8[n]: SCORED, MISSING_OUTPUT, BAD_OUTPUT, CONFLICT or ERROR."""
    values: Floats
    """float64[m, n]; NaN where the value is undefined (a null in the file)."""
    status: Codes
    """int8[m, n]: the Status of each row."""
    k: npt.NDArray[np.int32]
    """int32[m, n]: the resolved cutoff; 0 where the metric reads the whole list (a null in the file)."""
    slices: dict[str, pa.ListArray]
    """Slice field → list<string>, one list a sample, never empty: a sample without the field holds ["(none)"]."""
