"""Reads the two sides: patterns to files at launch, files to blocks on the workers.

A file that turns out broken half-way is reported as data, not raised: the run then ends with its name and reason and
publishes nothing, and no runner retries what cannot get better.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from transforms.ledger import PROGRESS
from transforms.limits import BrokenInput, Limits
from transforms.parse import Parsed, Source, Wants, parse_outputs, parse_samples
from transforms.sieve import Sieve

from .ahead import ahead
from .formats import FORMATS
from .inputs import InputFile

MAIN, REJECTED_TAG, TERMS_TAG, PROBLEMS_TAG = "blocks", "rejected", "terms", "problems"

SAMPLE_COLUMNS = ("id", "input", "expected_output", "metadata", "answer")
OUTPUT_COLUMNS = (
    "id",
    "actual_output",
    "actualOutput",
    "retrieved",
    "error",
    "answer",
    "citations",
    "latency_ms",
    "usage",
    "cost",
)


@dataclass(frozen=True)
class Reading:
    """How files are read, the same for both sides."""

    wants: Wants
    limits: Limits
    block_rows: int


@dataclass
class ReadSamples(beam.PTransform):
    """The samples' files as blocks, with what was rejected, the ledger's terms, and the files that are broken."""

    files: tuple[InputFile, ...]
    reading: Reading

    def expand(self, root: beam.Pipeline) -> Any:
        return root | _read(self.files, _ReadFileFn(parse_samples, SAMPLE_COLUMNS, self.reading))


@dataclass
class ReadOutputs(beam.PTransform):
    """The outputs' files as blocks, with what was rejected, the ledger's terms, and the files that are broken."""

    files: tuple[InputFile, ...]
    reading: Reading
    sieve: beam.PCollection | None = None
    """Of the gold; given to every reader, so that entries which cannot be judged are left out where they are read."""

    def expand(self, root: beam.Pipeline) -> Any:
        sides = [] if self.sieve is None else [beam.pvalue.AsSingleton(self.sieve)]
        return root | _read(self.files, _ReadFileFn(parse_outputs, OUTPUT_COLUMNS, self.reading), *sides)


_Found: TypeAlias = (
    pa.RecordBatch
    | TaggedOutput[Literal["rejected"], pa.RecordBatch]
    | TaggedOutput[Literal["terms"], tuple[str, int]]
    | TaggedOutput[Literal["problems"], str]
)


class _ReadFileFn(beam.DoFn):
    def __init__(self, parse: Callable[..., Parsed], columns: tuple[str, ...], reading: Reading) -> None:
        self._parse = parse
        self._columns = columns
        self._reading = reading

    def process(self, file: InputFile, sieve: Sieve | None = None) -> Iterator[_Found]:
        try:
            for parsed in read_blocks(file, self._parse, self._columns, self._reading, sieve):
                PROGRESS.add(parsed.terms)
                for term in parsed.terms.items():
                    yield TaggedOutput(TERMS_TAG, term)
                if parsed.rejected is not None:
                    yield TaggedOutput(REJECTED_TAG, parsed.rejected)
                if parsed.block is not None and parsed.block.num_rows:
                    yield parsed.block
        except BrokenInput as broken:
            yield TaggedOutput(PROBLEMS_TAG, str(broken))


def read_blocks(
    file: InputFile,
    parse: Callable[..., Parsed],
    columns: tuple[str, ...],
    reading: Reading,
    sieve: Sieve | None = None,
) -> Iterator[Parsed]:
    """One file, parsed block by block."""
    source = Source(file.side, file.number, file.shown)
    with ahead(FORMATS[file.format].read(file.path, reading.limits, reading.block_rows, columns)) as blocks:
        for raw in blocks:
            yield parse(raw, source, reading.wants) if sieve is None else parse(raw, source, reading.wants, sieve)


def _read(files: tuple[InputFile, ...], fn: _ReadFileFn, *sides: beam.pvalue.AsSingleton) -> beam.PTransform:
    # Without the Reshuffle a cluster would fuse listing and reading, and read everything in one place.
    return (
        beam.Create(files, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "Read" >> beam.ParDo(fn, *sides).with_outputs(REJECTED_TAG, TERMS_TAG, PROBLEMS_TAG, main=MAIN)
    )
