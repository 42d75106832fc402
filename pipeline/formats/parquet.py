"""Parquet: batches of Arrow columns, only those wanted, each batch bounded in rows and in bytes."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from transforms.bounds import written_bytes
from transforms.limits import MIB, BrokenInput, Limits
from transforms.records import Columns, Lines, Refused, Rows

from .bytestream import is_remote, open_raw, reading
from .parquet_pages import Group, Unsound, read_footer, survey
from .parquet_plan import ReadPlan, plan_reading


def peek(path: str) -> None:
    names(path)


def names(path: str) -> tuple[str, ...]:
    """The top-level columns of the file."""
    with _explained(path), closing(open_raw(path)) as file:
        read_footer(file)
        return tuple(pq.read_metadata(file).schema.to_arrow_schema().names)


def read(
    path: str, limits: Limits, block_rows: int, columns: Sequence[str] | None = None
) -> Iterator[Lines | Rows | Columns | Refused]:
    """One row group after the other. Arrow's types stay as the file has them, but texts may come as dictionaries.

    A file of which a single row would not fit in memory is broken as a whole, and so is one that unpacks to more than
    its bytes may. Most cannot, by what their page headers say, and are not measured.
    """
    first = 1
    promised = 0.0
    measured = 0
    with _opened(path) as (file, groups):
        metadata = pq.read_metadata(file)
        schema = metadata.schema
        wanted = _wanted(path, schema.to_arrow_schema().names, columns)
        leaves = [leaf for leaf in range(metadata.num_columns) if _root(schema.column(leaf)) in wanted]
        for number, group in enumerate(groups):
            chunks = [survey(file, group, leaf, schema.column(leaf)) for leaf in leaves]
            plan = plan_reading(file, group.rows, chunks, block_rows)
            promised += plan.most_bytes
            doubtful = promised > max(limits.file_bytes, limits.file_ratio * file.size())
            end = first + group.rows
            for batch in _batches(file, metadata, number, wanted, plan):
                for column in batch.columns:
                    _check_codes(column)
                if doubtful:
                    measured += sum(map(written_bytes, batch.columns))
                    limits.check_expansion(path, measured, file.size())
                if batch.num_rows:
                    yield Columns(first, batch)
                first += batch.num_rows
            if first != end:
                raise BrokenInput(path, f"row group {number + 1} does not hold the {group.rows} rows it promises")


def _batches(
    file: pa.NativeFile, metadata: Any, group: int, wanted: list[str], plan: ReadPlan
) -> Iterator[pa.RecordBatch]:
    # A buffered read of page after page: `pre_buffer`, or no buffer, would hold the whole row group. No slower.
    # Checksums cost nothing that could be measured, and without them a flipped bit passes unseen.
    opened = pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=sorted(plan.dictionaries),
        pre_buffer=False,
        buffer_size=MIB,
        page_checksum_verification=True,
        arrow_extensions_enabled=False,
    )
    yield from opened.iter_batches(plan.rows, row_groups=[group], columns=wanted, use_threads=False)


def _check_codes(column: pa.Array) -> None:
    """A code past the end of its dictionary. Arrow does not look, and whoever follows it reads memory or raises."""
    if pa.types.is_dictionary(column.type):
        codes = pc.min_max(column.indices).as_py()
        if codes["max"] is not None and not 0 <= codes["min"] <= codes["max"] < len(column.dictionary):
            raise Unsound("has damaged pages: a dictionary has no entry of that number; fetch or write it again")
    elif pa.types.is_struct(column.type):
        for child in column.flatten():
            _check_codes(child)
    elif pa.types.is_map(column.type):
        _check_codes(column.keys)
        _check_codes(column.items)
    elif pa.types.is_nested(column.type):
        _check_codes(column.flatten())


@contextmanager
def _opened(path: str) -> Iterator[tuple[pa.NativeFile, list[Group]]]:
    """The file, checked to be Parquet, and its row groups.

    A remote one is fetched whole first: its page headers are all over it, and seeking in a store costs a request.
    """
    with _explained(path), closing(open_raw(path)) as file:
        if not is_remote(path):
            yield file, read_footer(file)
            return
        with tempfile.NamedTemporaryFile(suffix=".parquet") as copy:
            shutil.copyfileobj(file, copy, 8 * MIB)
            copy.flush()
            with closing(pa.OSFile(copy.name)) as local:
                yield local, read_footer(local)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    with reading(path):
        try:
            yield
        except Unsound as error:
            raise BrokenInput(path, str(error)) from error


def _wanted(path: str, held: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    wanted = list(held) if columns is None else [name for name in held if name in set(columns)]
    if not wanted:
        asked = "none" if columns is None else " ".join(columns)
        raise BrokenInput(path, f"has none of the columns {asked}; it has {' '.join(held) or 'no columns'}")
    twice = sorted({name for name in wanted if wanted.count(name) > 1})
    if twice:
        raise BrokenInput(path, f"has more than one column named {twice[0]}; keep one")
    return wanted


def _root(described: Any) -> str:
    return str(described.path).split(".", 1)[0]
