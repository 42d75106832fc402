"""The ids of records: cast where they are integers, refused where nobody could join by them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import as_strings, blank_items, text_parts
from .decode import Flaw, integer_id

_LONGEST = 512
_CONTROLS = r"[\x00-\x1f\x7f\x{80}-\x{9f}]"
# Their first bytes in UTF-8: where no id of a block holds one, the pattern need not be looked for.
_MAY_BE_CONTROL = np.isin(np.arange(256), [*range(0x20), 0x7F, 0xC2])


@dataclass
class Ids:
    """The id of each record of a block, and what is wrong with it; how many were integers."""

    column: pa.StringArray
    flaws: dict[int, Flaw]
    integers: int


def read_ids(values: list[Any]) -> Ids:
    """Ids from Python values."""
    flaws: dict[int, Flaw] = {}
    texts: list[str | None] = list(values)
    integers = 0
    for i, value in enumerate(values):
        if isinstance(value, str):
            if value.isascii() or value == value.encode(errors="replace").decode():
                continue
            flaws[i] = Flaw("bad_id", "the id is not valid Unicode")
        elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            try:
                texts[i] = integer_id(int(value))
                integers += 1
                continue
            except ValueError as error:
                flaws[i] = Flaw("bad_id", f"the id is {error}")
        elif value is not None:
            flaws[i] = Flaw("bad_id", f"the id is a {type(value).__name__}, not a string or an integer")
        texts[i] = None
    return _checked(pa.array(texts, pa.string()), flaws, integers)


def read_id_column(column: pa.Array) -> Ids:
    """Ids from an Arrow column of strings or integers."""
    integers = len(column) - column.null_count if pa.types.is_integer(column.type) else 0
    return _checked(as_strings(column), {}, integers)


def _checked(column: pa.StringArray, flaws: dict[int, Flaw], integers: int) -> Ids:
    for i in _where(pa.array(blank_items(column))):
        flaws.setdefault(i, Flaw("missing_id", "the record has no id, or a blank one"))
    for i in _where(pc.greater(pc.utf8_length(column), _LONGEST)):
        flaws.setdefault(i, Flaw("bad_id", f"the id is longer than {_LONGEST} characters"))
    if _MAY_BE_CONTROL[text_parts(column)[1]].any():
        for i in _where(pc.match_substring_regex(column, _CONTROLS)):
            flaws.setdefault(i, Flaw("bad_id", "the id holds control characters"))
    return Ids(column, flaws, integers)


def _where(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    return found
