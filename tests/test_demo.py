import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import cli
from pipeline.demo import SAMPLES, dataset, demo_plan, write_demo
from pipeline.errors import UsageError


def records(lines: list[str]) -> list[dict[str, Any]]:
    found = []
    for text in lines:
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


def test_the_dataset_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    paths = write_demo(str(tmp_path / "demo"))
    digest = hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()
    assert digest == "f204b0a5ac956f8df939c6a2d16352edb0b89d34a91cf5e8ba801783a03f431c"
    assert write_demo(str(tmp_path / "demo")) == paths


def test_the_demo_never_overwrites_a_file_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_text('{"id": "mine"}\n')
    with pytest.raises(UsageError, match="not the demo's"):
        write_demo(str(tmp_path))
    assert (tmp_path / "samples.jsonl").read_text() == '{"id": "mine"}\n'
    assert not (tmp_path / "outputs.jsonl").exists()


def test_the_gold_has_every_shape_and_the_metadata_what_slices_need() -> None:
    samples, _ = dataset()
    golds = [record["expected_output"] for record in records(samples)]
    assert any(isinstance(gold, dict) for gold in golds)
    assert any(isinstance(gold, list) and gold and isinstance(gold[0], str) for gold in golds)
    assert any(isinstance(gold, list) and gold and isinstance(gold[0], list) for gold in golds)
    metadata = [record["metadata"] for record in records(samples) if "metadata" in record]
    assert {"en", "de", "fr", "es"} == {each["lang"] for each in metadata}
    assert any(each.get("tags") == [] for each in metadata) and any("k" in each for each in metadata)


def test_the_outputs_come_in_every_wrapping_and_some_fail() -> None:
    _, outputs = dataset()
    bodies = [record.get("actual_output") for record in records(outputs)]
    assert {dict, list, str, type(None)} <= {type(body) for body in bodies}
    assert sum("error" in record for record in records(outputs)) == 5


def test_the_demo_allows_its_own_rejects_and_replaces_its_last_run() -> None:
    plan = demo_plan("d")
    assert (plan.max_rejects.share, plan.replace, plan.slice_by) == (0.05, True, ("lang", "tags"))


def test_the_demo_runs_and_every_record_is_accounted_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    assert cli.main(["demo", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert "samples 611 = " in out and "outputs 600 = " in out and "ledger balanced" in out
    assert "engine in-process (FnApiRunner)" in out
    assert "Traceback" not in err and "apitools" not in err

    assert cli.main(["show", str(folder / "runs"), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    ledger = shown["ledger"]
    samples, outputs = ledger["samples"], ledger["outputs"]
    assert samples["read"] == 611 and samples["joined"] + samples["missing"] == SAMPLES
    assert (samples["rejected"], samples["duplicate"]) == (8, 3)
    assert outputs == {"read": 600, "matched": 587, "unmatched": 5, "rejected": 6, "duplicate": 2}
    whole = {row["metric"]: row for row in shown["summary"] if row["slice"] == "all"}
    assert all(row["expected"] == SAMPLES and 0.1 < row["mean"] < 0.95 for row in whole.values())
    assert {row["slice_value"] for row in shown["summary"] if row["slice"] == "lang"} == {"en", "de", "fr", "es"}
    assert "(none)" in {row["slice_value"] for row in shown["summary"] if row["slice"] == "tags"}


def test_the_demo_runs_twice_on_one_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for _ in range(2):
        assert cli.main(["demo", str(tmp_path / "demo")]) == 0
        tables.append(capsys.readouterr().out.partition("run_date ")[0])
    assert tables[0] == tables[1]
    assert len(list(tmp_path.glob("demo/runs/run_date=*/CURRENT"))) == 1
    assert len(list(tmp_path.glob("demo/runs/run_date=*/attempt=*"))) == 2


def test_a_committed_date_needs_replace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, outputs = write_demo(str(tmp_path))
    argv = ["run", "--samples", samples, "--outputs", outputs, "--out", str(tmp_path / "runs"), "--max-rejects", "5%"]
    argv += ["--run-date", "2026-11-18"]
    assert cli.main(argv) == 0
    capsys.readouterr()
    assert cli.main(argv) == 3
    assert "already committed" in capsys.readouterr().err
    assert cli.main([*argv, "--replace"]) == 0


def test_too_many_rejects_publish_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, outputs = write_demo(str(tmp_path))
    argv = ["run", "--samples", samples, "--outputs", outputs, "--out", str(tmp_path / "runs"), "--max-rejects", "1"]
    assert cli.main(argv) == 3
    err = capsys.readouterr().err
    assert err.startswith("rankbeam: ") and err.count("\n") == 1
    assert not list(tmp_path.glob("runs/run_date=*/CURRENT"))
