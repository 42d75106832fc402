"""What the README shows is what the command does."""

import re
from pathlib import Path

import pytest

from pipeline.cli import main

README = Path(__file__).parent.parent / "README.md"


def block(after: str) -> str:
    """The first fenced block after these words."""
    text = README.read_text()
    found = re.search(r"```\w*\n(.*?)```", text[text.index(after) :], re.DOTALL)
    assert found
    return found[1]


def test_the_example_prints_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/samples.jsonl").write_text(block("`data/samples.jsonl`"))
    Path("data/outputs.jsonl").write_text(block("`data/outputs.jsonl`"))
    command = block("## What comes out").replace("\\\n", " ").replace("'", "").split()
    assert main(command[1:]) == 0
    printed = capsys.readouterr().out
    shown = re.search(r"```\n(metric  .*?)```", README.read_text(), re.DOTALL)
    assert shown
    assert printed.startswith(shown[1])


def test_the_metric_table_is_the_one_the_command_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--format", "md"]) == 0
    table = capsys.readouterr().out
    assert table.strip() in README.read_text(), "write the table anew with `rankbeam metrics --format md`"
