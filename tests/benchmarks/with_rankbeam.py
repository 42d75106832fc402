"""rankbeam, through its own command: read, join, score, pool, ledger, commit."""

import json
import sys
from pathlib import Path

from contest import Case


def command(case: Case, out: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pipeline", "run"),
        *("--samples", str(case.samples)),
        *("--outputs", str(case.outputs)),
        *("--metrics", ",".join(case.metrics)),
        *("--out", str(out)),
        "--replace",
    ]


def tables(out: Path) -> list[Path]:
    """The committed rows, found as any reader should: CURRENT, then its manifest, then the files it lists."""
    (current,) = out.glob("run_date=*/CURRENT")
    attempt = current.parent / current.read_text().strip()
    manifest = json.loads((attempt / "manifest.json").read_text())
    return [attempt / file["path"] for file in manifest["files"] if file["path"].startswith("per_sample/")]
