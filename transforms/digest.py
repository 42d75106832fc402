"""The 128-bit digest of a record's content: the same for the same content, whatever its layout, block or neighbours.

The strings of a list lie side by side in memory, so a list costs two calls of a C hash however long it is. The hash is
not cryptographic; of n records of one id, the chance that two different ones pass for copies is below n² / 2**129.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from .columns import as_strings, is_list, is_texts, list_parts, text_parts
from .hashing import Hashes

Lanes = npt.NDArray[np.uint64]
"""uint64[n, 2]: a 128-bit digest a row."""

_NULL = np.array([0x27220A957FF2D4A1, 0x9E3779B97F4A7C15], np.uint64)
_EXACT = 1 << 53  # integers up to here are floats as well


def digest_columns(columns: Iterable[pa.Array]) -> tuple[Hashes, Hashes]:
    """The digest of each row over all columns, as two lanes; the order of the columns matters."""
    lanes = _rows([digest_column(column) for column in columns])
    return lanes[:, 0].copy(), lanes[:, 1].copy()


def digest_column(column: pa.Array) -> Lanes:
    """The digest of each cell of a column in plain layouts (see `layouts`)."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.tile(_NULL, (len(column), 1))
    if pa.types.is_dictionary(kind):
        # By its dictionary: one prompt in every row is digested once, and never written out.
        lanes = (
            digest_column(column.dictionary)[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
            if len(column.dictionary)
            else np.tile(_NULL, (len(column), 1))
        )
    elif is_texts(kind):
        column = as_strings(column)
        lanes = _texts(column)
    elif pa.types.is_struct(kind):
        lanes = _struct(column)
    elif is_list(kind) or pa.types.is_map(kind):
        lanes = _lists(*list_parts(column))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        lanes = _numbers(column)
    else:
        lanes = _texts(column.cast(pa.string()))
    if column.null_count:
        lanes = np.where(column.is_null().to_numpy(zero_copy_only=False)[:, None], _NULL, lanes)
    return lanes


def _struct(column: pa.Array) -> Lanes:
    """A field that is null counts as absent: writers give every row all the fields that any row has."""
    total: Lanes = np.zeros((len(column), 2), np.uint64)
    for i, field in enumerate(column.type):
        value = column.field(i)
        name = _slices(field.name.encode(), [0, len(field.name.encode())])
        lanes = _rows([np.tile(name, (len(column), 1)), digest_column(value)])
        total += np.where(value.is_valid().to_numpy(zero_copy_only=False)[:, None], lanes, np.uint64(0))
    return total


def _lists(offsets: npt.NDArray[np.int64], items: pa.Array) -> Lanes:
    if not is_texts(items.type):
        cells = digest_column(items)
        return _slices(np.ascontiguousarray(cells), (offsets * 16).tolist())
    starts, data = text_parts(_without_nulls(as_strings(items)))
    lengths = np.diff(starts).astype(np.int32)
    if items.null_count:
        lengths[items.is_null().to_numpy(zero_copy_only=False)] = -1
    # The lengths are the seed: they tell ["ab"] from ["a", "b"].
    sizes = memoryview(lengths.tobytes())
    seeds = [xxhash.xxh3_64_intdigest(sizes[start:stop]) for start, stop in pairwise((offsets * 4).tolist())]
    return _slices(data, starts[offsets].tolist(), seeds)


def _texts(column: pa.StringArray) -> Lanes:
    starts, data = text_parts(_without_nulls(column))
    return _slices(data, starts.tolist())


def _without_nulls(column: pa.StringArray) -> pa.StringArray:
    return column.fill_null("") if column.null_count else column  # a null may span bytes, too


def _numbers(column: pa.Array) -> Lanes:
    """Numbers by value, so that 1 and 1.0 are one content."""
    boolean = pa.types.is_boolean(column.type)
    column = column.fill_null(False if boolean else 0)
    # + 0.0 makes -0.0 equal to 0.0; any NaN is as good as another.
    numbers = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    rest = np.zeros(len(column), np.uint64)
    if pa.types.is_integer(column.type):
        large = np.abs(numbers) >= _EXACT
        rest[large] = column.to_numpy(zero_copy_only=False)[large].astype(np.uint64)
    return np.stack([numbers.view(np.uint64), rest], axis=1)


def _rows(parts: list[Lanes]) -> Lanes:
    """One digest a row over the digests of its parts."""
    matrix = np.concatenate(parts, axis=1)
    return _slices(matrix, range(0, matrix.size * 8 + 1, len(parts) * 16))


def _slices(data: Any, bounds: Sequence[int], seeds: Iterable[int] = repeat(0)) -> Lanes:
    """The digest of each stretch of bytes between two bounds."""
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    digest = xxhash.xxh3_128_digest
    joined = b"".join(
        [digest(view[start:stop], seed) for (start, stop), seed in zip(pairwise(bounds), seeds, strict=False)]
    )
    return np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)
