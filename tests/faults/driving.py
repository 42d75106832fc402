"""The real command on small files: what it says, how it ends, and what it leaves behind."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.cli import main
from pipeline.commit import open_run

ROOT = Path(__file__).resolve().parent.parent.parent
DATE = "2026-11-18"
SAMPLE = {"id": "q-1", "expected_output": ["d-1"]}
OUTPUT = {"id": "q-1", "retrieved": ["d-2", "d-1"]}


@dataclass
class Ended:
    code: int
    out: str
    err: str


class Desk:
    """A folder with a good sample and a good output; a test spoils one of them and runs the command."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        self.folder, self._capsys = folder, capsys
        self.samples = self.write("samples.jsonl", SAMPLE)
        self.outputs = self.write("outputs.jsonl", OUTPUT)
        self.runs = folder / "runs"

    def write(self, name: str, *records: Any) -> Path:
        """Bytes as they are, texts as lines, anything else as JSON lines."""
        path = self.folder / name
        lines = [each if isinstance(each, bytes) else _line(each) for each in records]
        path.write_bytes(b"".join(lines))
        return path

    def argv(self, *flags: str) -> list[str]:
        given = ["--samples", str(self.samples), "--outputs", str(self.outputs), "--out", str(self.runs)]
        return ["run", *given, "--run-date", DATE, *flags]

    def run(self, *flags: str) -> Ended:
        """In this process; where the process itself is the point, `spawn`."""
        return self.call(self.argv(*flags))

    def call(self, argv: list[str]) -> Ended:
        self._capsys.readouterr()
        code = main(argv)
        return Ended(code, *self._capsys.readouterr())

    def spawn(self, *flags: str, **environment: Any) -> Ended:
        return spawn(self.argv(*flags), **environment)

    def validate(self, *flags: str) -> Ended:
        return self.call(["validate", "--samples", str(self.samples), "--outputs", str(self.outputs), *flags])

    def refuses(self, code: int, *said: str, flags: tuple[str, ...] = (), spawned: bool = False) -> Ended:
        """The run ends with this code and one line that says all this; nothing is to be seen of it."""
        ended = self.spawn(*flags) if spawned else self.run(*flags)
        assert ended.code == code, ended.err
        check_line(ended, *said)
        self.check_nothing_published()
        return ended

    def check_nothing_published(self) -> None:
        assert not list(self.runs.rglob("CURRENT")), "a failed run is visible"

    def commits(self, *flags: str) -> dict[str, Any]:
        """The run is committed; gives its ledger."""
        ended = self.run(*flags)
        assert ended.code == 0, ended.err
        return self.ledger()

    def ledger(self) -> dict[str, Any]:
        found: dict[str, Any] = open_run(str(self.runs)).manifest["ledger"]
        assert found["balanced"] is True
        return found

    def rejected(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = open_run(str(self.runs)).rejected().to_pylist()
        return rows

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = open_run(str(self.runs)).per_sample().to_pylist()
        return rows


def spawn(argv: list[str], **options: Any) -> Ended:
    command = [sys.executable, "-m", "pipeline", *argv]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)
    return Ended(done.returncode, done.stdout, done.stderr)


def check_line(ended: Ended, *said: str) -> None:
    assert ended.err.startswith("rankbeam: ") and ended.err.count("\n") == 1, ended.err
    assert "Traceback" not in ended.err and "report it" not in ended.err
    for words in said:
        assert words in ended.err
    assert ended.out == ""


def _line(record: Any) -> bytes:
    return (record if isinstance(record, str) else json.dumps(record)).encode() + b"\n"
