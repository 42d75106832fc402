"""FAULTS.md rows 1 to 4: files that are not there, are empty, or are written in another way."""

import pytest

from .driving import OUTPUT, SAMPLE, Desk, spawn

GOOD = b'{"id": "q-1", "expected_output": ["d-1"]}'


@pytest.mark.parametrize("side", ["samples", "outputs"])
def test_row_01_a_pattern_that_matches_nothing_is_named_with_near_names(desk: Desk, side: str) -> None:
    setattr(desk, side, desk.folder / f"{side}s.jsonl")
    desk.refuses(2, f"--{side} ", f"{side}s.jsonl: no such file", f"near names there: {side}.jsonl", spawned=True)


def test_row_01_a_folder_and_a_folder_that_is_not_there_are_told_apart(desk: Desk) -> None:
    desk.samples = desk.folder
    desk.refuses(2, "it is a folder: say which files of it")
    desk.samples = desk.folder / "nowhere" / "*.jsonl"
    desk.refuses(2, "there is no folder", "nowhere")


def test_row_01_an_address_whose_extra_is_not_installed_says_which(desk: Desk) -> None:
    for address, extra in (("gs://b/s.jsonl", "rankbeam[gcp]"), ("s3://b/s.jsonl", "rankbeam[aws]")):
        argv = ["run", "--samples", address, "--outputs", str(desk.outputs), "--out", str(desk.runs)]
        ended = desk.call(argv)
        assert ended.code == 2 and extra in ended.err and ended.err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n\t\n", b"\xef\xbb\xbf"], ids=["no bytes", "blank", "only a BOM"])
@pytest.mark.parametrize("side", ["samples", "outputs"])
def test_row_02_a_side_without_records_is_an_error(desk: Desk, side: str, content: bytes) -> None:
    desk.write(f"{side}.jsonl", content)
    desk.refuses(3, side)
    assert desk.validate().code == 3


@pytest.mark.parametrize("content", ["samples: []\n", "[]\n"])
def test_row_02_zero_samples_in_a_list_is_an_error(desk: Desk, content: str) -> None:
    desk.samples = desk.write("samples.yaml", content)
    desk.refuses(3, "no samples", "--samples", spawned=True)


def test_row_02_one_empty_shard_among_others_is_tolerated(desk: Desk) -> None:
    desk.write("samples-2.jsonl", b"")
    desk.samples = desk.folder / "samples*.jsonl"
    assert desk.commits()["samples"] == {"read": 1, "joined": 1, "missing": 0, "rejected": 0, "duplicate": 0}


@pytest.mark.parametrize(
    "content",
    [b"\n\n" + GOOD + b"\n\n", GOOD + b"\r\n", GOOD, b"\xef\xbb\xbf" + GOOD + b"\n"],
    ids=["blank lines", "CRLF", "no final newline", "BOM"],
)
def test_row_03_ways_to_end_and_begin_lines_are_tolerated(desk: Desk, content: bytes) -> None:
    desk.write("samples.jsonl", content)
    ledger = desk.commits()
    assert ledger["samples"]["read"] == ledger["samples"]["joined"] == 1 and ledger["samples"]["rejected"] == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("side", ["samples", "outputs"])
def test_row_04_utf_16_is_said(desk: Desk, side: str, encoding: str) -> None:
    text = '{"id": "q-1", "expected_output": ["d-1"], "retrieved": ["d-1"]}\n'
    desk.write(f"{side}.jsonl", text.encode(encoding))
    desk.refuses(3, f"{side}.jsonl", "looks like UTF-16", "save it as UTF-8", spawned=encoding == "utf-16")


def test_an_earlier_run_stays_as_it_was_when_the_next_one_fails(desk: Desk) -> None:
    desk.commits()
    before = {path: path.read_bytes() for path in desk.runs.rglob("*") if path.is_file()}
    desk.write("outputs.jsonl", {**OUTPUT, "id": "other"})
    assert desk.spawn("--replace").code == 3
    assert {path: path.read_bytes() for path in before} == before
    assert spawn(["show", str(desk.runs)]).code == 0


def test_validate_of_good_files_is_exit_0_and_says_that_a_run_would_commit(desk: Desk) -> None:
    ended = desk.validate()
    assert (ended.code, ended.err) == (0, "") and SAMPLE["id"] == "q-1"
    assert "samples: 1 file(s), jsonl: 1 read" in ended.out and ended.out.endswith("a run would commit\n")
