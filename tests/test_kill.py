"""A run killed for real, at any moment, leaves what was there and does not stand in the way of the next."""

import hashlib
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.commit import open_run

from .datasets import random_outputs, random_samples, write_jsonl

ROOT = Path(__file__).parent.parent


def command(folder: Path) -> list[str]:
    sides = ["--samples", str(folder / "s.jsonl"), "--outputs", str(folder / "o.jsonl")]
    return [sys.executable, "-m", "pipeline", "run", *sides, "--out", str(folder / "runs"), "--run-date", "2026-11-18",
            "--slice-by", "lang,tags", "--replace"]  # fmt: skip


def fingerprint(folder: Path) -> dict[str, str]:
    """CURRENT and every file of the run that it names."""
    run = open_run(str(folder / "runs"))
    run.verify()
    paths = [folder / "runs" / "run_date=2026-11-18" / "CURRENT", *sorted(Path(run.path).rglob("*"))]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}


@pytest.mark.slow
def test_a_run_killed_at_ten_random_moments_leaves_the_earlier_run_as_it_was(tmp_path: Path) -> None:
    rng = random.Random(9)
    samples = random_samples(rng, 3000)
    write_jsonl(tmp_path / "s.jsonl", samples)
    write_jsonl(tmp_path / "o.jsonl", random_outputs(rng, samples))
    began = time.monotonic()
    subprocess.run(command(tmp_path), cwd=ROOT, check=True, capture_output=True)
    whole = time.monotonic() - began
    before = fingerprint(tmp_path)
    killed = 0
    for _ in range(10):
        process = subprocess.Popen(command(tmp_path), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.3, 1.0) * whole)
        process.kill()
        if process.wait() == 0:
            before = fingerprint(tmp_path)  # it was faster than the kill, and has replaced the run as asked
            continue
        killed += 1
        after = fingerprint(tmp_path)
        if after != before:  # the kill may land between the publishing and the exit: then the new run is there, whole
            assert not set(before) & set(after) - {str(tmp_path / "runs/run_date=2026-11-18/CURRENT")}
            before = after
    assert killed >= 5
    subprocess.run(command(tmp_path), cwd=ROOT, check=True, capture_output=True)
    assert fingerprint(tmp_path) != before
