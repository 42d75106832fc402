"""Batches of columnar files: their columns checked, and brought to the layouts and names of the contract."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .bounds import column_breaches, long_cells
from .columns import as_strings, is_texts
from .decode import Flaw
from .digest import digest_columns
from .ids import Ids, read_id_column
from .layouts import plain, plain_type
from .limits import DEFAULTS, BrokenInput, Limits
from .records import Bools, Columns

LISTS = ("actual_output", "actualOutput", "retrieved")
"""The columns that may hold what was retrieved."""


@dataclass
class Table:
    """The contract's columns of a batch in plain layouts, those that it lacks as nulls; rows with bad text marked."""

    numbers: list[int] | range
    columns: dict[str, pa.Array]
    flaws: dict[int, Flaw]
    unreadable: Bools
    """Rows whose id is not UTF-8."""
    digests: dict[int, str] = field(default_factory=dict)
    """Rows that break a limit, with what stands for their content: it is too much to be spelled."""

    def ids(self) -> Ids:
        ids = read_id_column(self.columns["id"])
        for i in np.flatnonzero(self.unreadable):
            ids.flaws[int(i)] = self.flaws[int(i)]
        return ids

    def row(self, i: int) -> dict[str, Any]:
        if i in self.digests:
            return {"id": self.columns["id"][i].as_py(), "digest": self.digests[i]}
        values = {name: column[i].as_py() for name, column in self.columns.items()}
        return {name: value for name, value in values.items() if value is not None}


def read_table(raw: Columns, side: str, path: str, record_type: type[Any], limits: Limits = DEFAULTS) -> Table:
    """A batch of a columnar file of one side. A BrokenInput says what the file lacks."""
    problem = check_columns(raw.batch.schema, side)
    if problem is not None:
        raise BrokenInput(path, problem)
    n = raw.batch.num_rows
    given = dict(zip(raw.batch.schema.names, raw.batch.columns, strict=True))
    numbers = range(raw.first, raw.first + n) if raw.numbers is None else raw.numbers
    table = Table(numbers, {}, {}, np.zeros(n, np.bool_))
    for name in record_type.__struct_fields__:
        column, bad = plain(given.get(name, pa.nulls(n)))
        table.columns[name] = column
        # `input` may hold anything, so also bytes that are no text.
        if bad is not None and name != "input":
            for i in np.flatnonzero(bad):
                table.flaws.setdefault(int(i), Flaw("bad_utf8", f"`{name}` holds text that is not UTF-8"))
            table.unreadable |= bad & (name == "id")
    _empty_outsized(table, limits)
    return table


def _empty_outsized(table: Table, limits: Limits) -> None:
    """Of a row that breaks a limit only the id goes on, and of an id that does, nothing."""
    found: dict[int, Flaw] = {}
    for name, column in table.columns.items():
        for i, broken in column_breaches(name, column, limits).items():
            found.setdefault(i, Flaw(*broken))
    if not found:
        return
    rows = sorted(found)
    high, low = digest_columns(column.take(pa.array(rows)) for column in table.columns.values())
    table.digests = {i: f"{int(one):016x}{int(two):016x}" for i, one, two in zip(rows, high, low, strict=True)}
    outsized = np.zeros(len(table.unreadable), np.bool_)
    outsized[rows] = True
    long_ids = long_cells(table.columns["id"], limits.cell_bytes)
    for name, column in table.columns.items():
        gone = long_ids if name == "id" else outsized
        if gone.any():
            table.columns[name] = column.take(pa.array(np.arange(len(gone)), mask=gone))
    table.flaws = {**table.flaws, **found}


def check_columns(schema: pa.Schema, side: str) -> str | None:
    """What a columnar file lacks, expected against found; None when it will do."""
    kinds = dict(zip(schema.names, schema.types, strict=True))
    found = ", ".join(f"{field.name}: {field.type}" for field in schema) or "no columns"
    body = ("expected_output", "answer") if side == "samples" else (*LISTS, "error")
    for name in ("id", "metadata", *body):
        if schema.names.count(name) > 1:
            return f"expected one column `{name}`, found {found}"
    if "id" not in kinds:
        return f"expected a column `id`, found {found}"
    kind = plain_type(kinds["id"])
    if not (is_texts(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        return f"expected `id` to hold strings or integers, found {kinds['id']}"
    if not set(kinds) & set(body):
        return f"expected a column {' or '.join(f'`{name}`' for name in body[:3])}, found {found}"
    for name in set(kinds) & {"expected_output", *LISTS}:
        kind = plain_type(kinds[name])
        if not (pa.types.is_nested(kind) or is_texts(kind) or pa.types.is_null(kind)):
            return f"expected `{name}` to hold lists, maps or JSON text, found {kinds[name]}"
    return None


def error_column(column: pa.Array) -> Bools:
    """Where `error` is set, by the rule for Python values."""
    if pa.types.is_boolean(column.type):
        found = column.fill_null(False)
    elif is_texts(column.type):
        found = pc.not_equal(as_strings(column), "").fill_null(False)
    elif pa.types.is_floating(column.type):
        found = pc.invert(pc.is_null(column, nan_is_null=True))
    else:
        found = column.is_valid()
    where: Bools = found.to_numpy(zero_copy_only=False)
    return where
