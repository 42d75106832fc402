"""Reads the two sides: patterns to files at launch, files to blocks on the workers.

A file that turns out broken half-way is reported as data, not raised: the run then ends with its name and reason and
publishes nothing, and no runner retries what cannot get better.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from transforms.group import MAIN, REJECTED_TAG, TERMS_TAG, GroupByQuery, Grouping, cut, emitted, parse_queries
from transforms.limits import BrokenInput, Limits
from transforms.order import Queries
from transforms.parse import Parsed, Source, Wants, parse_outputs, parse_samples
from transforms.records import Long, place
from transforms.sieve import Sieve

from .ahead import ahead
from .fields import COLUMNS, Fields, project, wanted
from .formats import FORMATS
from .inputs import InputFile
from .redact import redact

PROBLEMS_TAG = "problems"

_PARSE: dict[str, Callable[..., Parsed]] = {"samples": parse_samples, "outputs": parse_outputs}


@dataclass(frozen=True)
class Reading:
    """How files are read, the same for both sides."""

    wants: Wants
    limits: Limits
    block_rows: int
    ties: str = "trec"
    fields: Fields = field(default_factory=Fields)
    sources: tuple[Source, ...] = ()
    buckets: int = 1
    """Of the grouping that formats of one line a document need."""

    def grouping(self, side: str) -> Grouping:
        return Grouping(side, self.sources, self.wants, self.ties)


class Side(NamedTuple):
    """What reading a side gives: its blocks, what was rejected, the ledger's terms, and the files that are broken."""

    blocks: beam.PCollection
    rejected: beam.PCollection
    terms: beam.PCollection
    problems: beam.PCollection


@dataclass
class ReadSamples(beam.PTransform):
    """The samples' files as blocks, with what was rejected, the ledger's terms, and the files that are broken."""

    files: tuple[InputFile, ...]
    reading: Reading

    def expand(self, root: beam.Pipeline) -> Any:
        return _read(root, self.files, self.reading)


@dataclass
class ReadOutputs(beam.PTransform):
    """The outputs' files as blocks, with what was rejected, the ledger's terms, and the files that are broken."""

    files: tuple[InputFile, ...]
    reading: Reading
    sieve: beam.PCollection | None = None
    """Of the gold; given to every reader, so that entries which cannot be judged are left out where they are read."""

    def expand(self, root: beam.Pipeline) -> Any:
        return _read(root, self.files, self.reading, self.sieve)


_Found: TypeAlias = (
    pa.RecordBatch
    | TaggedOutput[Literal["rejected"], pa.RecordBatch]
    | TaggedOutput[Literal["terms"], tuple[str, int]]
    | TaggedOutput[Literal["problems"], str]
)


class _ReadFileFn(beam.DoFn):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def process(self, file: InputFile, sieve: Sieve | None = None) -> Iterator[_Found]:
        try:
            for parsed in read_blocks(file, self._reading, sieve):
                yield from emitted(parsed)
        except BrokenInput as broken:
            yield TaggedOutput(PROBLEMS_TAG, redact(str(broken)))  # it goes to a file


def is_long(files: tuple[InputFile, ...]) -> bool:
    """Whether a side's files have one line a document: what is read of them are then pieces, to be grouped."""
    return any(FORMATS[file.format].long for file in files)


def read_blocks(file: InputFile, reading: Reading, sieve: Sieve | None = None) -> Iterator[Parsed]:
    """One file, block by block: parsed, or, of a format of one line a document, cut into pieces."""
    source = Source(file.side, file.number, file.shown)
    parse, columns = _PARSE[file.side], COLUMNS[file.side]
    mapping = reading.fields.of(file.side) if FORMATS[file.format].named else {}
    names = wanted(mapping, columns) if mapping else columns
    read = FORMATS[file.format].reader(file.side)
    with ahead(read(file.path, reading.limits, reading.block_rows, names)) as blocks:
        for raw in blocks:
            if isinstance(raw, Long):
                yield cut(raw, source)
            elif isinstance(raw, Queries):
                raw.at = place(file.number, raw.at)
                yield from parse_queries(raw, reading.grouping(file.side), sieve)
            else:
                named = project(raw, mapping, columns, file.shown) if mapping else raw
                args = () if sieve is None else (sieve,)
                yield parse(named, source, reading.wants, *args)


def _read(
    root: beam.Pipeline, files: tuple[InputFile, ...], reading: Reading, sieve: beam.PCollection | None = None
) -> Any:
    long = is_long(files)
    sides = [] if sieve is None or long else [beam.pvalue.AsSingleton(sieve)]
    # Without the Reshuffle a cluster would fuse listing and reading, and read everything in one place.
    read = (
        root
        | beam.Create(files, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "Read"
        >> beam.ParDo(_ReadFileFn(reading), *sides).with_outputs(REJECTED_TAG, TERMS_TAG, PROBLEMS_TAG, main=MAIN)
    )
    if not long:
        return read
    grouped = read.blocks | GroupByQuery(reading.grouping(files[0].side), reading.buckets, sieve)
    rejected = (read.rejected, grouped.rejected) | "Rejects" >> beam.Flatten()
    terms = (read.terms, grouped.terms) | "Terms" >> beam.Flatten()
    return Side(grouped.blocks, rejected, terms, read.problems)
