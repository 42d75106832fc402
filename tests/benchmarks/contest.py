"""What cases and contenders agree on; each of them is one file here, found by its name.

A case is a file `case_*.py` with `add_flags(parser)` and `prepare(flags, workdir) -> Case`. A contender is a file
`with_*.py` with `command(case, out) -> list[str] | None`, which evaluates the case into the empty folder `out` (None:
it has no part in this case), and `tables(out) -> list[Path]`, the Parquet files with the rows sample_id, metric, k,
value that it left there. The file may also be the script that the command runs; then it imports its library only
there, so that the others can run where that library is not installed.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    samples: Path
    outputs: Path
    metrics: tuple[str, ...]
    """Names as rankbeam writes them, one cutoff each: `recall@5`, `mrr`."""
