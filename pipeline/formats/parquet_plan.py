"""How to read one row group so that no batch can grow past a bound, whatever the file holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from transforms.limits import MIB

from .parquet_pages import Chunk, Unsound, longest_entry, longest_row

BATCH_BYTES = 16 * MIB
"""What a batch should come to."""
ROW_BYTES = 256 * MIB
"""What one row, or the pages that have to be unpacked for it, may come to."""
_LEVEL_BYTES = 4
"""Two levels of two bytes a value, where a column is nested."""
_DENSE = 50
"""Unpacked bytes for each stored byte of a page. Text compresses to a tenth, or a twentieth at best."""
_SUSPICIOUS = 20
"""Decoded bytes for each stored byte of lists. Rankings of real documents stay under 10."""


@dataclass(frozen=True)
class ReadPlan:
    """Rows a batch, and the columns to read as dictionaries."""

    rows: int
    dictionaries: frozenset[str]
    most_bytes: float
    """What all of the row group may come to: often far more than it does, as every text counts like the longest."""


def plan_reading(file: pa.NativeFile, rows: int, chunks: Sequence[Chunk], block_rows: int) -> ReadPlan:
    """Raises Unsound where even one row may take too much.

    A plain column's rows are counted by its page headers, so its batches are known beforehand. In a list column only
    the levels inside the pages tell where rows start; they are decoded where the lists would be large if they all
    stood in one row and their bytes are too few to be ordinary data.
    """
    for chunk in chunks:
        if chunk.values < rows or (chunk.values > rows and not chunk.repeated):
            raise Unsound(f"promises {rows} rows where column {chunk.path} holds {chunk.values}; write it again")
    pages = sum(chunk.largest_pages for chunk in chunks)
    # Large pages alone are no fault: pyarrow puts at least 1,024 texts into one, however long they are.
    if pages > ROW_BYTES and pages > _DENSE * sum(chunk.compressed for chunk in chunks):
        raise Unsound(f"has pages that unpack to {pages >> 20} MiB; write it with pages of about 1 MiB")
    entries = {chunk.path: _plain_entry(file, chunk) for chunk in chunks}
    dictionaries = frozenset(chunk.path for chunk in chunks if _as_dictionary(chunk, entries[chunk.path]))
    costs = {chunk.path: _page_costs(chunk, entries[chunk.path]) for chunk in chunks}
    flat = [chunk for chunk in chunks if not chunk.repeated]
    lists = [chunk for chunk in chunks if chunk.repeated]
    per_row = sum(_list_row_cost(file, rows, lists, costs))
    batch = max(1, block_rows)
    while (worst := _worst_batch(rows, flat, costs, batch) + batch * per_row) > BATCH_BYTES and batch > 1:
        batch = (batch + 1) // 2
    if worst > ROW_BYTES:
        raise Unsound(f"has a row that may unpack to {int(worst) >> 20} MiB; leave it out or cut it")
    return ReadPlan(batch, dictionaries, sum(map(sum, costs.values())))


def _plain_entry(file: pa.NativeFile, chunk: Chunk) -> int:
    """The longest text of a dictionary; 0 where there is none."""
    used = any(page.dictionary for page in chunk.pages)
    return longest_entry(file, chunk) if used and chunk.physical == "BYTE_ARRAY" else 0


def _as_dictionary(chunk: Chunk, entry: int) -> bool:
    """Texts that are dictionary-encoded to their end cost a third as dictionaries: 0.07 s against 0.25 s for ten
    million of 20,000 ids. Where the writer gave its dictionary up, plain is two to twelve times faster, unless what
    the dictionary stands for is too much to write out: then it is a bomb, or as good as one.
    """
    if chunk.physical != "BYTE_ARRAY" or not chunk.pages:
        return False
    by_dictionary = sum(page.values for page in chunk.pages if page.dictionary)
    return all(page.dictionary for page in chunk.pages) or by_dictionary * entry > BATCH_BYTES


def _page_costs(chunk: Chunk, entry: int) -> list[float]:
    """Bytes that each page comes to once it is decoded, at most."""
    levels = _LEVEL_BYTES if chunk.repeated else 0
    costs: list[float] = []
    for page in chunk.pages:
        if chunk.physical != "BYTE_ARRAY":
            cost = page.values * max(8, chunk.width)
        elif page.dictionary:
            cost = page.values * (8 + entry)  # also where it is read as a dictionary: some step will write it out
        elif page.prefixes:
            # Each text may begin with all of the one before: a page of n bytes may hold n bytes of text n times.
            cost = page.values * (8 + page.unpacked)
        else:
            cost = page.values * 8 + page.unpacked
        costs.append(cost + page.values * levels)
    return costs


def _worst_batch(rows: int, flat: Sequence[Chunk], costs: dict[str, list[float]], batch: int) -> float:
    """The dearest batch of so many rows, over all plain columns."""
    bounds = np.minimum(np.arange(0, rows + batch, batch), rows)
    total = np.zeros(len(bounds) - 1)
    for chunk in flat:
        ends = np.cumsum([0, *(page.values for page in chunk.pages)])
        total += np.diff(np.interp(bounds, ends, np.cumsum([0.0, *costs[chunk.path]])))
    return float(total.max(initial=0.0))


def _list_row_cost(
    file: pa.NativeFile, rows: int, lists: Sequence[Chunk], costs: dict[str, list[float]]
) -> list[float]:
    """What a row of each list column costs: on average where the data is ordinary, at worst where it is not."""
    total = sum(sum(costs[chunk.path]) for chunk in lists)
    stored = sum(chunk.compressed for chunk in lists)
    if total <= ROW_BYTES or total <= _SUSPICIOUS * stored:
        return [sum(costs[chunk.path]) / max(1, rows) for chunk in lists]
    found = []
    for chunk in lists:
        values = longest_row(file, chunk)
        dearest = max((cost / max(1, page.values) for page, cost in zip(chunk.pages, costs[chunk.path], strict=True)))
        found.append(values * dearest)
    return found
