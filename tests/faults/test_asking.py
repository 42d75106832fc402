"""FAULTS.md rows 33 to 38: what is asked wrongly, and data that would like to be more than data."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.progress import line

from .driving import DATE, OUTPUT, SAMPLE, Desk, check_line, spawn

ROWS = range(1, 39)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("metrcs = 'mrr'", "plan.toml: metrcs: unknown key; did you mean metrics?"),
        ("k = 'five'", "plan.toml: k: expected a whole number, found a text"),
        ("[limits]\nline_byte = 5", "line_byte: unknown key; did you mean line_bytes?"),
        ("k = 0", "plan.toml: k '0': expected a whole number above 0"),
        ("metrics = 'recal@5'", "did you mean 'recall'"),
        ("dialect = 'trek'", "did you mean 'trec'"),
        ("k = ", "plan.toml: not a TOML file"),
        ("k = 1\nk = 2", "plan.toml: not a TOML file"),
    ],
)
def test_row_33_a_mistake_in_the_plan_is_named_with_its_path(desk: Desk, plan: str, said: str) -> None:
    path = desk.write("plan.toml", plan)
    desk.refuses(2, said, flags=("--plan", str(path)))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--metrics", "ndgc@10"), "did you mean 'ndcg'"),
        (("--metrics", "recall@0"), "recall@0"),
        (("--k", "0"), "--k '0': expected a whole number above 0"),
        (("--dialect", "autorga"), "did you mean 'autorag'"),
        (("--metric", "mrr"), "unknown flag --metric; did you mean --metrics?"),
        (("--missing", "zeros"), "did you mean zero?"),
    ],
)
def test_row_33_a_mistake_in_a_flag_is_named_with_the_nearest_word(
    desk: Desk, flags: tuple[str, ...], said: str
) -> None:
    desk.refuses(2, said, flags=flags, spawned=flags[0] in ("--metrics", "--metric"))


@pytest.mark.parametrize("date", ["2026-02-30", "20260218", "2026-W07-1", "yesterday"])
def test_row_34_a_date_that_is_none_is_an_error(desk: Desk, date: str) -> None:
    desk.refuses(2, f"--run-date '{date}': not a date", flags=("--run-date", date))


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York"])
def test_row_34_the_date_of_a_run_is_one_utc_date_and_printed(desk: Desk, zone: str) -> None:
    """Kiritimati is 14 hours ahead, Pago Pago 11 behind: one of them always has another date than UTC."""
    argv = [arg for arg in desk.argv() if arg not in ("--run-date", DATE)]
    ended = spawn(argv, env={**os.environ, "TZ": zone})
    [folder] = desk.runs.iterdir()
    date = folder.name.removeprefix("run_date=")
    [attempt] = folder.glob("attempt=*")
    assert ended.code == 0 and f"run_date {date}\n" in ended.out
    assert attempt.name.startswith(f"attempt={date.replace('-', '')}T"), "the attempt's own time is UTC"


EVIL = [
    "../../etc/passwd",
    "a\x1b[2J\x1b]0;x\x07",
    "</script><script>x",
    '=HYPERLINK("http://x")',
    "a\u202eb\u2066",
    "n\0l",
]
ACTIVE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def test_row_35_hostile_text_is_inert_wherever_it_is_shown(desk: Desk) -> None:
    desk.write("samples.jsonl", *({**SAMPLE, "id": f"q-{i}", "metadata": {"x": e}} for i, e in enumerate(EVIL)))
    bad = [{"id": text, "retrieved": [text, None]} for text in EVIL]
    good = ({"id": f"q-{i}", "retrieved": [text, "d-1"]} for i, text in enumerate(EVIL))
    desk.write("outputs.jsonl", *good, *bad)
    flags = ("--slice-by", "x", "--max-rejects", "100%")
    shown = [desk.spawn(*flags).out, desk.validate(*flags).out]
    for format in ("table", "md", "csv", "json"):
        ended = spawn(["show", str(desk.runs), "--format", format])
        assert ended.code == 0
        shown.append(ended.out)
    for text in shown:
        assert not ACTIVE.search(text)
    md, csv, document = shown[3:]
    assert "<script" not in md and "<script" not in document
    assert not re.search(r"(?m)(^|,)\"?[=+@]", csv)
    values = {row["slice_value"] for row in json.loads(document)["summary"] if row["slice"] == "x"}
    assert values == set(EVIL), "inert, and still the text that it was"
    # Nothing of the data became a path.
    assert {path.name for path in desk.folder.iterdir()} == {"samples.jsonl", "outputs.jsonl", "runs"}


@pytest.mark.parametrize("text", ["a\u202eb", "</script>", "=HYPERLINK()", "../x"])
def test_row_35_hostile_ids_are_inert_in_messages(desk: Desk, text: str) -> None:
    desk.write("outputs.jsonl", {**OUTPUT, "id": text})
    assert not ACTIVE.search(desk.refuses(3, "an output id is '").err)
    path = desk.folder / "s\x1b[31m\u202e.jsonl"
    desk.samples = path
    assert not ACTIVE.search(desk.refuses(2, "no such file").err)
    assert not ACTIVE.search(line({f"samples.rejected.{text}": 1}, 1.0))


def test_row_36_a_url_or_a_path_in_a_record_is_text_and_never_opened(desk: Desk, tmp_path: Path) -> None:
    """A pipe that is opened to be read would hold the run until somebody writes into it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for text in (str(pipe), f"file://{pipe}", "http://127.0.0.1:9/x", "gs://b/x"):
        desk.write("samples.jsonl", {"id": text, "expected_output": [text], "input": text, "answer": text})
        desk.write("outputs.jsonl", {"id": text, "retrieved": [{"id": text, "text": text}]})
        ended = desk.spawn("--metrics", "mrr,containment@5", "--replace", timeout=60)
        assert ended.code == 0, ended.err
        assert {row["value"] for row in desk.rows()} == {1.0}


def every_text(folder: Path) -> list[str]:
    return [path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_row_37_credentials_are_in_no_message_and_in_no_file(desk: Desk, debug: tuple[str, ...]) -> None:
    hidden = desk.folder / "token=hunter2"
    hidden.mkdir()
    samples = hidden / "samples.jsonl"
    samples.write_text(json.dumps(SAMPLE) + "\n{\n")
    desk.samples = samples
    failed = desk.spawn(*debug)
    done = desk.spawn("--max-rejects", "50%", *debug)
    assert (failed.code, done.code) == (3, 0)
    (hidden / "samples.jsonl.gz").write_bytes(b"\x1f\x8b\x08" + bytes(30))
    desk.samples = hidden / "samples.jsonl.gz"
    broken = desk.spawn("--replace", *debug)
    assert broken.code == 3 and "token=***" in broken.err
    told: list[Any] = [failed, done, broken, desk.validate(), desk.run("--samples", "s3://u:hunter2@b/x?sig=hunter2")]
    told.append(desk.run("--", "--s3_secret_access_key=hunter2", "--nonsense=hunter2"))
    for ended in told:
        assert "hunter2" not in ended.out + ended.err
    for text in every_text(desk.runs):
        assert "hunter2" not in text


def test_row_38_multi_threading_is_refused_with_the_reason(desk: Desk) -> None:
    flags = ("--", "--direct_running_mode=multi_threading")
    desk.refuses(2, "multi_threading", "loses rows", "use multi_processing", flags=flags, spawned=True)
    ended = desk.call(desk.argv("--", "--direct_running_mode", "multi_threading"))
    assert ended.code == 2
    check_line(ended, "loses rows")


def test_every_row_of_the_fault_list_has_a_test() -> None:
    tests = Path(__file__).resolve().parent.parent
    sources = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    found = {int(number) for number in re.findall(r"(?m)^ *def test_row_(\d\d)_", sources)}
    assert not set(ROWS) - found
