"""pytrec_eval sparing memory: 10,000 samples at a time, so that only the gold and the scores are held whole."""

from pathlib import Path

from contest import Case
from with_pytrec_eval import script, tables

__all__ = ["command", "tables"]


def command(case: Case, out: Path) -> list[str]:
    return script("batched", case, out)
