"""Arrow columns of any layout as the few that the steps read: strings, numbers, lists, structs, maps.

Views, fixed sizes, dictionaries of other things than text, run ends and extensions say how a writer stored a value, not
what it is. Bytes are read as text, since many a writer never says which of the two it means.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import is_list, is_number, is_texts, list_parts, spread
from .decode import canonical_json
from .records import Bools


def plain(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    """The column in plain layouts, and its rows that hold text which is not UTF-8; None where all of it is.

    A column that is plain already comes back as the same object.
    """
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return plain(column.storage)
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind):
        return _dictionary(column)
    if is_texts(kind):
        return _texts(column)
    if pa.types.is_struct(kind):
        return _struct(column)
    if is_list(kind):
        return _list(column)
    if pa.types.is_map(kind):
        return _map(column)
    if pa.types.is_temporal(kind):
        return _spelled(column), None
    if is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column, None
    values = [None if value is None else canonical_json(value) for value in column.to_pylist()]
    return pa.array(values, pa.string()), None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """What `plain` makes of a type, as far as the outermost layer goes."""
    return plain(pa.array([], kind))[0].type


def _texts(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            return column.cast(pa.string()), None
        except pa.ArrowInvalid:
            return _repaired(column)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return _repaired(column)
    return column, None


def _repaired(column: pa.Array) -> tuple[pa.Array, Bools]:
    """Text with a mark where a byte makes no sense: for people to look at, never to be scored."""
    bad = np.zeros(len(column), np.bool_)
    texts: list[str | None] = []
    for i, data in enumerate(column.cast(pa.large_binary()).to_pylist()):
        text = None if data is None else data.decode(errors="replace")
        bad[i] = text is not None and text.encode() != data
        texts.append(text)
    return pa.array(texts, pa.string()), bad


def _dictionary(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    if not is_texts(column.type):
        return plain(column.dictionary_decode())
    values, bad = plain(column.dictionary)
    if values is column.dictionary:
        return column, None
    if bad is not None:
        found = pa.array(bad).take(column.indices).fill_null(False)
        bad = found.to_numpy(zero_copy_only=False)
    return pa.DictionaryArray.from_arrays(column.indices, values), bad


def _struct(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    fields = [column.field(i) for i in range(column.type.num_fields)]
    parts = [plain(field) for field in fields]
    if all(part is field for (part, _), field in zip(parts, fields, strict=True)):
        return column, None
    absent = column.is_null()
    names = [field.name for field in column.type]
    rebuilt = pa.StructArray.from_arrays([part for part, _ in parts], names, mask=absent)
    bad = [found for _, found in parts if found is not None]
    return rebuilt, np.logical_or.reduce(bad) & ~absent.to_numpy(zero_copy_only=False) if bad else None


def _list(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    offsets, items = list_parts(column)
    part, bad = plain(items)
    if part is items and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return column, None
    rebuilt = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), part, mask=_absent(column))
    return rebuilt, None if bad is None else np.bincount(spread(offsets)[bad], minlength=len(column)) > 0


def _map(column: pa.Array) -> tuple[pa.Array, Bools | None]:
    offsets, pairs = list_parts(column)
    part, bad = plain(pairs)
    if part is pairs:
        return column, None
    rebuilt = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), part.field(0), part.field(1), mask=_absent(column))
    return rebuilt, None if bad is None else np.bincount(spread(offsets)[bad], minlength=len(column)) > 0


def _absent(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _spelled(column: pa.Array) -> pa.Array:
    """Dates and times as text; as the number that is stored where the file names a time zone nobody knows."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return column.cast(pa.int64()).cast(pa.string())
