"""Records of one id that contradict each other: what `rejected` says of them.

There may be a million. They are told column by column, in batches of bounded size, and what repeats is a dictionary.
Their bodies were left behind before the shuffle, hence no sha256 and a preview of the id alone; what helps is a place
to compare with, and every row names one.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import list_parts, places_of
from .decode import canonical_json
from .parse import Source
from .records import REJECTED, Bools, Ints, unplace

ROWS_AT_ONCE = 1 << 16
_PREVIEW = 200


def conflict_rows(
    block: pa.RecordBatch, codes: Ints, conflicting: Bools, told: Ints, side: str, sources: tuple[Source, ...]
) -> Iterator[pa.RecordBatch]:
    """A row for every copy of the records `told`, a part of those conflicting; `codes` number the records' ids.

    Strings that repeat are dictionaries: cast to REJECTED for plain ones.
    """
    if not len(told):
        return
    offsets, places = list_parts(block["at"])
    at = places.to_numpy()
    other = _counterparts(codes, conflicting, np.minimum.reduceat(at, offsets[:-1]))
    record_of = np.repeat(told, np.diff(offsets)[told])
    at = at[places_of(offsets, told)]
    for start in range(0, len(at), ROWS_AT_ONCE):
        records = record_of[start : start + ROWS_AT_ONCE]
        n = len(records)
        compared, message_of = np.unique(other[records], return_inverse=True)
        ids = block["sample_id"].take(pa.array(records)).dictionary_encode()
        columns = {
            "source": _repeated(side, n),
            "location": _locations(at[start : start + n], sources),
            "code": _repeated("conflict", n),
            "message": pa.DictionaryArray.from_arrays(message_of.astype(np.int32), _messages(compared, sources)),
            "preview": pa.DictionaryArray.from_arrays(ids.indices, _previews(ids.dictionary)),
            "sha256": pa.nulls(n, pa.string()),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in REJECTED.names], REJECTED.names)


def _counterparts(codes: Ints, conflicting: Bools, earliest: Ints) -> Ints:
    """Record → the place of the earliest record of its id that differs from it, whatever order they came in."""
    records = np.flatnonzero(conflicting)
    order = records[np.lexsort((earliest[records], codes[records]))]
    heads = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.diff(np.append(heads, len(order)))
    found = np.full(len(codes), -1)
    found[order] = np.repeat(earliest[order[heads]], sizes)
    found[order[heads]] = earliest[order[heads + 1]]  # a conflict has two records at least
    return found


def _locations(at: Ints, sources: tuple[Source, ...]) -> pa.StringArray:
    files, numbers = unplace(at)
    paths = pa.array([source.path for source in sources], pa.string())
    return pc.binary_join_element_wise(paths.take(pa.array(files)), pa.array(numbers).cast(pa.string()), ":")


def _messages(at: Ints, sources: tuple[Source, ...]) -> pa.StringArray:
    said = " has this id and different content; none of them is used"
    return pc.binary_join_element_wise(_locations(at, sources), said, "")


def _previews(ids: pa.StringArray) -> pa.StringArray:
    return pa.array([canonical_json({"id": sample_id})[:_PREVIEW] for sample_id in ids.to_pylist()], pa.string())


def _repeated(text: str, n: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(n, np.int8), [text])
