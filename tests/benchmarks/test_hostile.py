"""A dirty set with a known answer, through the real command; `make bench-hostile` runs it with a million ids."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.slow
def test_every_count_and_place_of_a_mixed_dirty_set_is_exact(tmp_path: Path) -> None:
    flags = ["--only", "mixed", "--records", "100000", "--workdir", str(tmp_path)]
    done = subprocess.run([sys.executable, str(HERE / "hostile.py"), *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every count and all 13500 places exact: holds" in done.stdout
