"""The benchmark itself: its contenders agree on a small case, and it would notice if they did not."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("agree", HERE / "agree.py")
agree = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agree)

ROWS = {"sample_id": ["a", "b"], "metric": ["mrr", "mrr"], "k": [None, None], "value": [0.5, None]}


def bench(workdir: Path, *contenders: str) -> subprocess.CompletedProcess[str]:
    flags = ["--samples", "300", "--rounds", "1", "--workdir", str(workdir), "--only", *contenders]
    return subprocess.run([sys.executable, str(HERE / "run.py"), *flags], capture_output=True, text=True)


@pytest.mark.slow
def test_rankbeam_and_pytrec_eval_agree_on_every_value(tmp_path: Path) -> None:
    done = bench(tmp_path, "pytrec_eval", "pytrec_eval_batched", "rankbeam")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "lists.json").read_text())
    assert {name: each["differs"] for name, each in result["contenders"].items()} == {
        "pytrec_eval": None,
        "pytrec_eval_batched": None,
        "rankbeam": None,
    }


@pytest.mark.slow
def test_the_same_flags_give_the_same_data(tmp_path: Path) -> None:
    for workdir in (tmp_path / "one", tmp_path / "two"):
        done = bench(workdir, "pytrec_eval")
        assert done.returncode == 0, done.stderr
    one, two = (sorted((tmp_path / name).glob("data/*/*.parquet")) for name in ("one", "two"))
    assert len(one) == 2
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_rows_in_another_order_agree(tmp_path: Path) -> None:
    backwards = {name: column[::-1] for name, column in ROWS.items()}
    assert agree.difference(*written(tmp_path, ROWS, backwards)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"value": [0.5 + 1e-8, None]},
        {"value": [0.5, 0.0]},
        {"sample_id": ["a", "c"]},
        {"k": [None, 5]},
        {"metric": ["mrr", "map"]},
        {"sample_id": ["a"], "metric": ["mrr"], "k": [None], "value": [0.5]},
    ],
)
def test_any_difference_is_told(tmp_path: Path, change: dict[str, list[object]]) -> None:
    assert agree.difference(*written(tmp_path, ROWS, ROWS | change))


def written(folder: Path, *tables: dict[str, list[object]]) -> list[list[Path]]:
    schema = pa.schema(
        [("sample_id", pa.string()), ("metric", pa.string()), ("k", pa.int32()), ("value", pa.float64())]
    )
    paths = [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, rows in zip(paths, tables, strict=True):
        pq.write_table(pa.table(rows, schema=schema), path)
    return [[path] for path in paths]
