"""Records held against the limits: which of them hold a text too long, a list too long, or nest too deep.

Whole columns are looked at by their types and offsets, and only where they are large enough to break a limit at all;
Python values are walked, level by level, with lists of plain strings measured in one call.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from .columns import is_list, is_texts, list_parts, spread, text_parts
from .limits import Limits
from .records import Bools

Breach = tuple[str, str]
"""A code and a message."""


def too_deep(limits: Limits) -> Breach:
    return "too_deep", f"nested deeper than {limits.depth} levels, which is limits.depth"


def cell_too_large(limits: Limits, where: str = "") -> Breach:
    return "cell_too_large", f"a text of more than {limits.cell_bytes} bytes{where}, which is limits.cell_bytes"


def list_too_long(limits: Limits, where: str = "") -> Breach:
    return "list_too_long", f"a list of more than {limits.list_items} items{where}, which is limits.list_items"


# Python values


def breach(value: Any, limits: Limits) -> Breach | None:
    """What limit a record breaks. Breadth first, a level a round, until it ends or passes the depth.

    Each container is looked at once a level, however often it is referred to: it may even hold itself.
    """
    found: Breach | None = None
    level = [value]
    for _ in range(limits.depth):
        inside: dict[int, Any] = {}
        for container in level:
            if container is not value and len(container) > limits.list_items:
                found = found or list_too_long(limits)
            items = _items(container)
            kinds = set(map(type, items))
            if str in kinds and _has_long(items if kinds == {str} else _of(str, items), limits.cell_bytes):
                found = found or cell_too_large(limits)
            if bytes in kinds and max(map(len, _of(bytes, items))) > limits.cell_bytes:
                found = found or cell_too_large(limits)
            if isinstance(container, Mapping) and _has_long(_of(str, container), limits.cell_bytes):
                found = found or cell_too_large(limits)
            if any(issubclass(kind, _CONTAINERS) for kind in kinds):
                inside |= {id(item): item for item in items if _is_container(item)}
        if not inside:
            return found
        level = list(inside.values())
    return too_deep(limits)


_CONTAINERS = (Mapping, list, tuple, np.ndarray)


def _is_container(item: Any) -> bool:
    return isinstance(item, _CONTAINERS) and not (isinstance(item, np.ndarray) and not item.ndim)


def _items(container: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(container, Mapping):
        return list(container.values())
    items: list[Any] | tuple[Any, ...] = container.tolist() if isinstance(container, np.ndarray) else container
    return items


def _of(kind: type, items: Iterable[Any]) -> list[Any]:
    return [item for item in items if type(item) is kind]


def _has_long(texts: list[str] | tuple[str, ...], limit: int) -> bool:
    """Characters first: a text of a quarter of the bytes is not worth encoding."""
    if 4 * max(map(len, texts), default=0) <= limit:
        return False
    return any(len(text.encode(errors="surrogatepass")) > limit for text in texts if 4 * len(text) > limit)


# Columns


def column_breaches(name: str, column: pa.Array, limits: Limits) -> dict[int, Breach]:
    """Row → what it breaks in this column of a record."""
    found: dict[int, Breach] = {}
    for rows, broken in (
        (deep_rows(column, limits.depth - 1), too_deep(limits)),
        (long_lists(column, limits.list_items), list_too_long(limits, f" in `{name}`")),
        (long_cells(column, limits.cell_bytes), cell_too_large(limits, f" in `{name}`")),
    ):
        for row in np.flatnonzero(rows).tolist():
            found.setdefault(row, broken)
    return found


def long_cells(column: pa.Array, limit: int) -> Bools:
    """Rows with a text over the limit. A column of fewer bytes than that is not looked at."""
    if column.nbytes <= limit:
        return _none(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        long = long_cells(column.dictionary, limit)
        if not long.any():
            return _none(column)
        # A null has no code; any will do, as nulls are masked.
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        cells: Bools = long[codes] & column.is_valid().to_numpy(zero_copy_only=False)
        return cells
    if is_texts(kind):
        # Views have no offsets to look at.
        offsets, _ = text_parts(column.cast(pa.large_binary()) if "view" in str(kind) else column)
        sizes: Bools = (np.diff(offsets) > limit) & column.is_valid().to_numpy(zero_copy_only=False)
        return sizes
    return _within(column, lambda part: long_cells(part, limit))


def long_lists(column: pa.Array, limit: int) -> Bools:
    """Rows with a list, or a map, of more items than the limit."""
    kind = column.type
    if not pa.types.is_nested(kind):
        return _none(column)
    found = _within(column, lambda part: long_lists(part, limit))
    if is_list(kind) or pa.types.is_map(kind):
        found = found | (np.diff(list_parts(column)[0]) > limit)
    return found


def deep_rows(column: pa.Array, levels: int) -> Bools:
    """Rows that nest deeper than so many levels below the record. Most types cannot."""
    if _type_depth(column.type) <= levels:
        return _none(column)
    if levels <= 0:
        valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        return valid
    return _within(column, lambda part: deep_rows(part, levels - 1))


def written_bytes(column: pa.Array) -> int:
    """What a column comes to with its dictionaries written out."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return written_bytes(column.storage)
    if pa.types.is_dictionary(kind) and is_texts(kind):
        values = column.dictionary
        offsets, _ = text_parts(values.cast(pa.large_binary()) if "view" in str(values.type) else values)
        codes = column.indices.drop_null().to_numpy(zero_copy_only=False)
        return int(np.diff(offsets).astype(np.int64)[codes].sum()) + 4 * len(column)
    if pa.types.is_struct(kind):
        return sum(map(written_bytes, column.flatten()))
    if is_list(kind) or pa.types.is_map(kind):
        return written_bytes(list_parts(column)[1]) + 4 * len(column)
    return int(column.nbytes)


def _within(column: pa.Array, look: Any) -> Bools:
    """Rows of which a part looks so."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        inner: Bools = look(column.storage)
        return inner
    found = _none(column)
    if pa.types.is_struct(kind):
        # flatten, not field: it minds the offset of a sliced array.
        for child in column.flatten():
            found |= look(child)
    elif is_list(kind) or pa.types.is_map(kind):
        offsets, items = list_parts(column)
        for part in items.flatten() if pa.types.is_map(kind) else [items]:
            bad = look(part)
            if bad.any():
                found[np.unique(spread(offsets)[bad])] = True
    return found


def _type_depth(kind: pa.DataType) -> int:
    """Levels of lists, maps and objects. The pairs of a map are no level of their own."""
    if isinstance(kind, pa.BaseExtensionType):
        return _type_depth(kind.storage_type)
    if pa.types.is_struct(kind):
        return 1 + max((_type_depth(each.type) for each in kind), default=0)
    if pa.types.is_map(kind):
        return 1 + max(_type_depth(kind.key_type), _type_depth(kind.item_type))
    return 1 + _type_depth(kind.value_type) if is_list(kind) else 0


def _none(column: pa.Array) -> Bools:
    return np.zeros(len(column), np.bool_)
