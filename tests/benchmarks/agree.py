"""Do two contenders say the same? Compared metric by metric, so that a million samples fit in memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TOLERANCE = 1e-9


def difference(ours: list[Path], theirs: list[Path]) -> str | None:
    """The first difference between two sets of rows, in any order; None if they agree."""
    left, right = read(ours), read(theirs)
    metrics, others = (sorted(pc.unique(table["metric"]).to_pylist()) for table in (left, right))
    if metrics != others:
        return f"metrics differ: {metrics} against {others}"
    return next(filter(None, (difference_in(metric, left, right) for metric in metrics)), None)


def read(files: list[Path]) -> pa.Table:
    columns = ["sample_id", "metric", "k", "value"]
    tables = [pq.ParquetFile(file, read_dictionary=["metric"]).read(columns) for file in files]
    return pa.concat_tables(tables).unify_dictionaries()


def difference_in(metric: str, left: pa.Table, right: pa.Table) -> str | None:
    left, right = (
        table.filter(pc.equal(table["metric"], metric)).sort_by("sample_id").combine_chunks() for table in (left, right)
    )
    for column in ("sample_id", "k"):
        if not left[column].equals(right[column]):
            return f"{metric}: {column} differs ({left.num_rows} rows against {right.num_rows})"
    # A null becomes NaN here, and so equals only a null.
    a, b = left["value"].to_numpy(), right["value"].to_numpy()
    apart = np.flatnonzero(~np.isclose(a, b, rtol=0, atol=TOLERANCE, equal_nan=True))
    if not len(apart):
        return None
    first = apart[0]
    return f"{metric}: {len(apart)} values differ, first {left['sample_id'][first]}: {a[first]} against {b[first]}"
