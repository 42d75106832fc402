"""What each input format makes of good, odd, broken and hostile files."""

import copy
import gzip
import hashlib
import io
import json
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats import FORMATS, guess, jsonl, parquet_plan, peek
from pipeline.formats.parquet_pages import Unsound, longest_entry, longest_row, read_footer, survey
from transforms.bounds import long_cells, long_lists, written_bytes
from transforms.limits import MIB, BrokenInput, Limits
from transforms.records import Columns, Lines, Refused, Rows

ROOT = Path(__file__).resolve().parents[1]
LIMITS = Limits()


def blocks(path: Path, limits: Limits = LIMITS, block_rows: int = 65536, columns: list[str] | None = None) -> list[Any]:
    name = guess(str(path))
    assert name is not None
    return list(FORMATS[name].read(str(path), limits, block_rows, columns))


def lines(path: Path, limits: Limits = LIMITS, block_rows: int = 65536) -> list[tuple[int, bytes]]:
    found = [block for block in blocks(path, limits, block_rows) if isinstance(block, Lines)]
    return [pair for block in found for pair in zip(block.numbers, block.data, strict=True)]


def rows(path: Path, limits: Limits = LIMITS, block_rows: int = 65536, columns: list[str] | None = None) -> list[Any]:
    """(number, record) of every usable record, whatever kind of block it came in."""
    found: list[Any] = []
    for block in blocks(path, limits, block_rows, columns):
        if isinstance(block, Rows):
            found += zip(block.numbers, block.records, strict=True)
        elif isinstance(block, Columns):
            block.batch.validate(full=True)
            found += enumerate(block.batch.to_pylist(), block.first)
    return found


def refused(path: Path, limits: Limits = LIMITS, block_rows: int = 65536) -> list[Refused]:
    return [block for block in blocks(path, limits, block_rows) if isinstance(block, Refused)]


def complaint(path: Path, columns: list[str] | None = None) -> str:
    """What reading says about a broken file: one line that starts with its name."""
    with pytest.raises(BrokenInput) as caught:
        blocks(path, columns=columns)
    assert caught.value.path == str(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return caught.value.reason


def peek_complaint(path: Path, name: str) -> str:
    with pytest.raises(BrokenInput) as caught:
        peek(str(path), name)
    return caught.value.reason


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def apart(code: str, *arguments: object) -> tuple[str, int]:
    """Runs code in a process of its own, under 3 GiB of address space; its output and its peak memory in MiB."""
    # Arrow reserves address space it never touches, hence the wide limit; the peak is what a machine would feel.
    # The peak is the kernel's own mark for this image: getrusage would start from the memory of the test's process.
    frame = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from pipeline.formats import FORMATS, guess\n"
        "from transforms.limits import BrokenInput, Limits\n"
        f"{code}\n"
        "status = open('/proc/self/status').read()\n"
        "print('\\npeak', int(status.split('VmHWM:')[1].split()[0]) // 1024)\n"
    )
    command = [sys.executable, "-c", frame, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    output, _, peak = done.stdout.rpartition("\npeak ")
    return output, int(peak)


READ_APART = """
path = sys.argv[1]
seen = {}
try:
    for block in FORMATS[guess(path)].read(path, Limits(), 65536, None):
        kind = type(block).__name__
        size = len(getattr(block, 'data', ())) or getattr(getattr(block, 'batch', None), 'num_rows', 1)
        seen[kind] = seen.get(kind, 0) + size
except BrokenInput as error:
    seen['broken'] = error.reason
print(seen)
"""


# Names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.jsonl", "jsonl"),
        ("gs://b/part-*.ndjson", "jsonl"),
        ("a.JSONL.gz", "jsonl"),
        ("a.jsonl.zst", "jsonl"),
        ("a.snappy.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("a.avro", "avro"),
        ("a.yaml", "yaml"),
        ("a.yml.gz", "yaml"),
        ("a.parquet.gz", None),
        ("a.json", None),
        ("jsonl", None),
        ("a.gz", None),
    ],
)
def test_format_is_guessed_from_the_name_only_where_safe(path: str, name: str | None) -> None:
    assert guess(path) == name


def test_broken_input_survives_pickling() -> None:
    # copy takes an exception apart and puts it together as pickle does
    again = copy.copy(BrokenInput("a.gz", "breaks\noff"))
    assert (str(again), again.path, again.reason) == ("a.gz: breaks off", "a.gz", "breaks off")


@pytest.mark.parametrize("name", list(FORMATS))
def test_missing_file_and_directory_are_named(tmp_path: Path, name: str) -> None:
    assert "No such file" in peek_complaint(tmp_path / "absent", name)
    assert "is a directory" in peek_complaint(tmp_path, name)


# JSON lines


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n \t\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_empty_text_yields_nothing(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path / "a.jsonl", data)
    peek(str(path), "jsonl")
    assert blocks(path) == []


def test_endings_blanks_and_marks_are_not_part_of_a_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b"\xef\xbb\xbf{1}\r\n\r\n  \n{4}\n\t\n{6}\r\r\n{7 \r 7}")
    assert lines(path) == [(1, b"{1}"), (4, b"{4}"), (6, b"{6}\r"), (7, b"{7 \r 7}")]


def test_last_line_needs_no_newline_and_keeps_no_cr(tmp_path: Path) -> None:
    assert lines(written(tmp_path / "a.jsonl", b"a\nb\r")) == [(1, b"a"), (2, b"b")]


@pytest.mark.parametrize("block_rows", [1, 7, 1024])
def test_block_size_does_not_change_the_lines(tmp_path: Path, block_rows: int) -> None:
    content = [b"x" * (number % 50) for number in range(1, 5001)]
    path = written(tmp_path / "a.jsonl", b"\n".join(content))
    expected = [(number, line) for number, line in enumerate(content, 1) if line]
    assert lines(path, block_rows=block_rows) == expected
    assert max(len(block.data) for block in blocks(path, block_rows=block_rows)) <= block_rows


def test_blocks_are_bounded_in_bytes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", (b"y" * MIB + b"\n") * 80)
    sizes = [sum(map(len, block.data)) for block in blocks(path)]
    assert sum(sizes) == 80 * MIB and max(sizes) <= 32 * MIB


@given(
    text=st.lists(st.sampled_from([b"a", b"bb", b"\r", b"\n", b" ", b"cccccc"]), max_size=40).map(b"".join),
    cut=st.integers(1, 9),
    limit=st.integers(1, 8),
)
def test_split_does_not_depend_on_where_pieces_end(text: bytes, cut: int, limit: int) -> None:
    """Against the plain definition, on the whole text at once."""
    expected: dict[int, tuple[str, bytes]] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        line = line[:-1] if line.endswith(b"\r") else line
        if len(line) > limit:
            expected[number] = ("too_large", hashlib.sha256(line).hexdigest().encode())
        elif line.strip():
            expected[number] = ("line", line)
    found: dict[int, tuple[str, bytes]] = {}
    for block in jsonl.split((text[at : at + cut] for at in range(0, len(text), cut)), limit):
        if isinstance(block, Refused):
            found[block.number] = (block.code, block.sha256.encode())
        else:
            found |= {number: ("line", line) for number, line in zip(block.numbers, block.data, strict=True)}
    # A giant of blanks alone may be either: skipped as blank when it was seen whole, refused when it was not.
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            expected.pop(number, None)
            found.pop(number, None)
    assert found == expected


def test_long_line_costs_its_record_only(tmp_path: Path) -> None:
    giant = b'{"id": "' + b"z" * 100_000 + b'"}'
    path = written(tmp_path / "a.jsonl", b"first\n" + giant + b"\r\nlast\n")
    limits = Limits(line_bytes=99_999)
    assert lines(path, limits) == [(1, b"first"), (3, b"last")]
    (found,) = refused(path, limits)
    assert (found.number, found.code, found.preview) == (2, "too_large", giant[:400])
    assert found.sha256 == hashlib.sha256(giant).hexdigest()
    assert lines(path, Limits(line_bytes=len(giant)))[1] == (2, giant)


@pytest.mark.parametrize("piece", [b"x" * 1000, b'{"id": "a"}\r'], ids=["one line", "CR only"])
def test_hundred_megabytes_without_newline_are_refused_in_bounded_memory(tmp_path: Path, piece: bytes) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(piece * (10**6 // len(piece)))
        file.write(b"\n{}\n")
    output, peak = apart(READ_APART, path)
    assert output.strip() == "{'Refused': 1, 'Lines': 1}"
    assert peak < 250
    (found,) = refused(path)
    assert ("end in CR alone" in found.message) == (b"\r" in piece)


@pytest.mark.parametrize("name", ["a.jsonl", "a.yaml"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_wide_encodings_are_named(tmp_path: Path, name: str, encoding: str) -> None:
    path = written(tmp_path / name, '{"id": "a", "input": "日本"}\n'.encode(encoding))
    wanted = f"looks like {encoding[:6].upper()}; save it as UTF-8"
    assert complaint(path) == wanted
    assert peek_complaint(path, str(guess(name))) == wanted


def test_stray_nul_is_left_to_the_parser(tmp_path: Path) -> None:
    assert lines(written(tmp_path / "a.jsonl", b'{"id": "a\0"}\n')) == [(1, b'{"id": "a\0"}')]


def test_binary_file_under_a_text_name_is_named(tmp_path: Path) -> None:
    assert "Parquet" in complaint(written(tmp_path / "a.jsonl", b"PAR1abcdefgh"))
    assert "Avro" in peek_complaint(written(tmp_path / "b.jsonl", b"Obj\x01abcdefgh"), "jsonl")
    assert "zip" in complaint(written(tmp_path / "c.jsonl", b"PK\x03\x04abcdefgh"))


# Compression

TEXT = b"".join(b'{"id": "s%d"}\n' % number for number in range(200_000))
PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstandard.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_text_reads_like_plain(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a.jsonl.{suffix}", PACK[suffix](TEXT))
    peek(str(path), "jsonl")
    assert lines(path) == list(enumerate(TEXT.splitlines(), 1))


@pytest.mark.parametrize("suffix", PACK)
def test_all_members_are_read(tmp_path: Path, suffix: str) -> None:
    parts = [TEXT[:1000], b"", TEXT[1000:50_001], TEXT[50_001:]]
    path = written(tmp_path / f"a.jsonl.{suffix}", b"".join(map(PACK[suffix], parts)))
    assert lines(path) == list(enumerate(TEXT.splitlines(), 1))


@pytest.mark.parametrize("suffix", PACK)
def test_compression_is_known_by_its_first_bytes_too(tmp_path: Path, suffix: str) -> None:
    assert lines(written(tmp_path / "a.jsonl", PACK[suffix](b"{}\n"))) == [(1, b"{}")]


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("missing", [1, 4, 5, 1000, 10_000])
def test_truncated_file_is_broken(tmp_path: Path, suffix: str, missing: int) -> None:
    packed = PACK[suffix](TEXT)
    assert "Truncated" in complaint(written(tmp_path / f"a.jsonl.{suffix}", packed[:-missing]))
    assert "Truncated" in complaint(written(tmp_path / f"b.jsonl.{suffix}", packed + packed[:-missing]))


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("data", [b"", b"{}\n"], ids=["empty", "text"])
def test_name_that_promises_compression_must_keep_it(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = written(tmp_path / f"a.jsonl.{suffix}", data)
    assert "does not start as" in complaint(path)
    assert "does not start as" in peek_complaint(path, "jsonl")


def test_damaged_gzip_is_broken(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-6] ^= 1
    assert "cannot be read" in complaint(written(tmp_path / "a.jsonl.gz", bytes(packed)))


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("unit", [b"\0" * 1000, b"{}" + b" " * 997 + b"\n"], ids=["one line", "lines"])
def test_text_bomb_stays_in_bounded_memory(tmp_path: Path, suffix: str, unit: bytes) -> None:
    path = tmp_path / f"a.jsonl.{suffix}"
    if suffix == "gz":
        with gzip.open(path, "wb", compresslevel=9) as file:
            for _ in range(400):
                file.write(unit * 1000)
    else:
        with path.open("wb") as out, zstandard.ZstdCompressor().stream_writer(out, closefd=False) as file:
            for _ in range(400):
                file.write(unit * 1000)
    assert path.stat().st_size < 2_000_000
    _, peak = apart(READ_APART, path)
    assert peak < 300


# Parquet

RANKINGS = pa.table(
    {
        "id": [f"s{number}" for number in range(3000)],
        "retrieved": [[f"d{(number * 7 + rank) % 500}" for rank in range(number % 5)] for number in range(3000)],
        "scored": [[{"id": f"d{number}", "score": number / 7}] * (number % 3) for number in range(3000)],
        "input": [None if number % 11 == 0 else {"question": f"what is {number}?"} for number in range(3000)],
        "extra": [b"unwanted"] * 3000,
    }
)


@pytest.mark.parametrize("block_rows", [1, 7, 1024])
@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 700}, {"use_dictionary": False}, {"data_page_version": "2.0"}]
)
def test_batch_size_does_not_change_the_rows(tmp_path: Path, block_rows: int, options: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(RANKINGS, path, write_page_checksum=True, **options)
    assert rows(path, block_rows=block_rows) == list(enumerate(RANKINGS.to_pylist(), 1))
    assert max(block.batch.num_rows for block in blocks(path, block_rows=block_rows)) <= block_rows


def test_only_wanted_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(RANKINGS, path)
    (block,) = blocks(path, columns=["id", "scored", "actual_output"])
    assert block.batch.schema.names == ["id", "scored"]
    assert FORMATS["parquet"].names is not None
    assert FORMATS["parquet"].names(str(path)) == ("id", "retrieved", "scored", "input", "extra")


def test_file_without_any_wanted_column_says_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"query": ["a"], "docs": ["b"]}), path)
    assert complaint(path, ["id", "retrieved"]) == "has none of the columns id retrieved; it has query docs"


def test_column_twice_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["id", "id"]), path)
    assert "more than one column named id" in complaint(path)


def ranking_file(path: Path, distinct: int) -> None:
    chosen = random.Random(0).choices(range(distinct), k=200_000)
    pq.write_table(pa.table({"retrieved": pa.array([[f"doc-{doc:09d}"] for doc in chosen])}), path)


def test_repeated_texts_come_as_dictionaries_and_varied_ones_do_not(tmp_path: Path) -> None:
    for distinct, expected in ((1000, True), (10**8, False)):
        ranking_file(tmp_path / "a.parquet", distinct)
        for block in blocks(tmp_path / "a.parquet"):
            assert pa.types.is_dictionary(block.batch.schema.field("retrieved").type.value_type) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.list_(pa.string()),
        pa.large_list(pa.string()),
        pa.list_view(pa.string()),
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.string())),
        pa.json_(),
    ],
    ids=str,
)
def test_every_layout_of_texts_is_read_and_bounded(tmp_path: Path, kind: pa.DataType) -> None:
    # pyarrow itself cannot read back a null among lists of fixed size.
    fixed = pa.types.is_fixed_size_list(kind)
    values: list[Any] = ["a", "b" * 20, "e" if fixed else None, "c"]
    for _ in range(str(kind).count("list")):
        values = [value and [value, value] for value in values]
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    array = pa.array(values, storage)
    if isinstance(kind, pa.BaseExtensionType):
        array = pa.ExtensionArray.from_storage(kind, array)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": array}), path)
    expected = [(number, {"id": value}) for number, value in enumerate(array.to_pylist(), 1)]
    assert rows(path) == expected
    (block,) = blocks(path)
    column = block.batch.column("id")
    assert list(np.flatnonzero(long_cells(column, 10))) == [1]
    assert not long_cells(column, 20).any()
    assert list(np.flatnonzero(long_lists(column, 1))) == ([0, 1, 2, 3] if fixed else [0, 1, 3]) * ("list" in str(kind))
    assert not long_lists(column, 2).any()
    assert written_bytes(column) >= 20 + 2


def parquet_bytes(table: pa.Table = RANKINGS, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, write_page_checksum=True, **options)
    return sink.getvalue()


def test_broken_parquet_is_named(tmp_path: Path) -> None:
    good = parquet_bytes()
    path = tmp_path / "a.parquet"
    for data, reason in [
        (b"", "too short"),
        (b"PAR1", "too short"),
        (b"id,retrieved\n1,2,3\n", "does not start"),
        (good[:-1], "does not end"),
        (good[: len(good) // 2], "does not end"),
        (good[:-8] + struct.pack("<I", 1 << 31) + b"PAR1", "footer longer than the file"),
        (good[:-100] + b"\xff" * 92 + good[-8:], ""),
        (good[:-8] + struct.pack("<I", 5) + b"PAR1", "damaged footer"),
    ]:
        written(path, data)
        assert reason in peek_complaint(path, "parquet")
        assert reason in complaint(path)


def test_flipped_bit_in_a_page_is_found(tmp_path: Path) -> None:
    data = bytearray(parquet_bytes(compression="none"))
    at = data.index(b"what is 1500?")
    data[at] ^= 1
    assert "cannot be read" in complaint(written(tmp_path / "a.parquet", bytes(data)))


def test_cut_chunk_is_broken(tmp_path: Path) -> None:
    """A hole in the middle, with a good footer: what a lost part of an upload looks like."""
    data = parquet_bytes()
    footer = struct.unpack("<I", data[-8:-4])[0] + 8
    holed = data[:4] + bytes(len(data) - footer - 4) + data[-footer:]
    assert "damaged pages" in complaint(written(tmp_path / "a.parquet", holed))


FUZZ = """
import random
path, spoilt = sys.argv[1], sys.argv[2]
good = open(path, 'rb').read()
outcomes = {'rows': 0, 'broken': 0}
for seed in range(300):
    rng = random.Random(seed)
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 3])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    with open(spoilt, 'wb') as out:
        out.write(data if rng.random() < 0.8 else data[:rng.randrange(len(data))])
    try:
        for block in FORMATS[guess(spoilt)].read(spoilt, Limits(), 65536, None):
            pass
        outcomes['rows'] += 1
    except BrokenInput as error:
        assert '\\n' not in str(error)
        outcomes['broken'] += 1
print(outcomes)
"""


@pytest.mark.parametrize("kind", ["parquet", "avro", "yaml", "jsonl.gz"])
def test_spoilt_bytes_end_in_rows_or_broken_input_and_nothing_else(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"good.{kind}"
    small = RANKINGS.slice(0, 300)
    if kind == "parquet":
        path.write_bytes(parquet_bytes(small))
    elif kind == "avro":
        path.write_bytes(avro_bytes([{"id": f"s{number}", "retrieved": ["a", "b"]} for number in range(300)]))
    elif kind == "yaml":
        path.write_text(json.dumps([{"id": f"s{number}", "retrieved": ["a", "b"]} for number in range(30)], indent=1))
    else:
        path.write_bytes(gzip.compress(TEXT[:3000]))
    output, peak = apart(FUZZ, path, tmp_path / f"spoilt.{kind}")
    assert "'broken': 0" not in output
    assert peak < 700


def repeated(text: str, times: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0]).take(pa.array([0] * times)).cast(pa.int32()), pa.array([text]))


BOMB_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "dictionary_pagesize_limit": 1 << 30,
    "write_statistics": False,
    "store_schema": False,
}


def flat_bomb(path: Path) -> None:
    """Twenty gigabytes of one text in three hundred bytes, by a writer that lies about nothing."""
    pq.write_table(pa.table({"id": repeated("a" * 1_000_000, 20_000)}), path, **BOMB_OPTIONS)
    assert path.stat().st_size < 400


def list_bomb(path: Path) -> None:
    """The same, all in the list of one row."""
    items = repeated("a" * 1_000_000, 20_000)
    column = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
    pq.write_table(pa.table({"retrieved": column}), path, **BOMB_OPTIONS)


def mixed_bomb(path: Path) -> None:
    """The same, with a plain page at the end, so that the column is not a dictionary throughout."""
    schema = pa.schema([("id", pa.dictionary(pa.int32(), pa.string()))])
    plain = pa.array(["z"]).dictionary_encode()
    column = pa.chunked_array([repeated("a" * 1_000_000, 20_000), plain])
    pq.write_table(pa.Table.from_arrays([column], schema=schema), path, **BOMB_OPTIONS)


def prefix_bomb(path: Path) -> None:
    """Each text begins with the whole of the one before."""
    table = pa.table({"id": ["a" * 1_000_000] * 300})
    options = BOMB_OPTIONS | {"use_dictionary": False, "column_encoding": {"id": "DELTA_BYTE_ARRAY"}}
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(pa.concat_tables([table] * 10), row_group_size=3000)


def plain_bomb(path: Path) -> None:
    """Nothing but zeros, compressed: first many rows of nothing, to lull an average, then texts of a megabyte."""
    table = pa.concat_tables([pa.table({"id": [""] * 500_000}), pa.table({"id": ["a" * 1_000_000] * 1200})])
    options = BOMB_OPTIONS | {"use_dictionary": False, "write_batch_size": 1}
    pq.write_table(table, path, row_group_size=10**6, **options)


def page_bomb(path: Path) -> None:
    """One cell of 600 MB."""
    table = pa.table({"id": pa.array(["a" * 600_000_000])})
    pq.write_table(table, path, **(BOMB_OPTIONS | {"use_dictionary": False}))


def item_bomb(path: Path) -> None:
    """A list of forty million items in one row of a thousand."""
    items = repeated("a", 40_000_000)
    column = pa.ListArray.from_arrays(pa.array([0] * 500 + [len(items)] * 501, pa.int32()), items)
    pq.write_table(pa.table({"retrieved": column}), path, **BOMB_OPTIONS)


@pytest.mark.parametrize(
    ("bomb", "outcome"),
    [
        (flat_bomb, "unpacks to more than 259 MiB from"),
        (list_bomb, "a row that may unpack to 19073 MiB"),
        (mixed_bomb, "raise limits.file_bytes"),
        (prefix_bomb, "raise limits.file_bytes"),
        (plain_bomb, "raise limits.file_bytes"),
        (page_bomb, "pages that unpack to 57"),
        (item_bomb, "a row that may unpack to"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_parquet_bomb_stays_in_bounded_memory(tmp_path: Path, bomb: Callable[[Path], None], outcome: str) -> None:
    path = tmp_path / "bomb.parquet"
    bomb(path)
    assert path.stat().st_size < 1_000_000
    output, peak = apart(READ_APART, path)
    assert outcome in output
    assert peak < 700


def nested_schema(depth: int) -> bytes:
    """A Parquet file of no rows whose schema is nested this deep, put together by hand."""

    def varint(value: int) -> bytes:
        return (bytes([value & 127 | 128]) + varint(value >> 7)) if value > 127 else bytes([value])

    group = b"\x35\x02\x18\x01g\x15\x02\x00"
    leaf = b"\x15\x0c\x25\x02\x18\x01x\x00"
    footer = b"\x15\x02\x19\xfc" + varint(depth + 1) + group * depth + leaf + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def test_deep_parquet_schema_does_not_end_the_process(tmp_path: Path) -> None:
    output, _ = apart(READ_APART, written(tmp_path / "a.parquet", nested_schema(500_000)))
    assert "nested more than 200 deep" in output


@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0"}, {"compression": "none"}, {"compression": "gzip"}]
)
@pytest.mark.parametrize("shape", ["ragged", "even", "empty", "nested"])
def test_longest_row_is_read_off_the_levels(tmp_path: Path, options: dict[str, Any], shape: str) -> None:
    rng = random.Random(3)
    lengths = {"ragged": [rng.choice([0, 1, 5, 400]) for _ in range(3000)], "even": [100] * 3000, "empty": [0] * 50}
    if shape == "nested":
        values: list[Any] = [[["a"] * rng.randrange(4) for _ in range(rng.randrange(5))] for _ in range(2000)]
        longest = max(sum(max(1, len(inner)) for inner in row) for row in values if row)
        kind = pa.list_(pa.list_(pa.string()))
    else:
        values = [[f"d{rng.randrange(50)}" for _ in range(length)] for length in lengths[shape]]
        longest = max(1, *lengths[shape])
        kind = pa.list_(pa.string())
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"c": pa.array(values, kind)}), path, data_page_size=3000, **options)
    metadata = pq.read_metadata(path)
    with pa.OSFile(str(path)) as file:
        (group,) = read_footer(file)
        chunk = survey(file, group, 0, metadata.schema.column(0))
        assert chunk.values == metadata.row_group(0).column(0).num_values
        assert longest_row(file, chunk) == longest
        texts = {text for row in values for text in (row if shape != "nested" else sum(row, []))}
        assert longest_entry(file, chunk) == max(map(len, texts), default=0)


@pytest.mark.parametrize("promised", [-1, 0, 9, 11, 10**15])
def test_footer_that_lies_about_rows_is_found_before_reading(tmp_path: Path, promised: int) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a"] * 10}), path)
    with pa.OSFile(str(path)) as file:
        (group,) = read_footer(file)
        chunk = survey(file, group, 0, pq.read_metadata(path).schema.column(0))
        with pytest.raises(Unsound, match="where column id holds 10"):
            parquet_plan.plan_reading(file, promised, [chunk], 100)


def test_large_pages_of_ordinary_text_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_plan, "ROW_BYTES", MIB)
    monkeypatch.setattr(parquet_plan, "BATCH_BYTES", MIB)
    rng = random.Random(0)
    texts = [" ".join(rng.choices(["alpha", "beta", "gamma", "delta"], k=2000)) for _ in range(300)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"actual_output": texts}), path, use_dictionary=False, compression="zstd")
    found = blocks(path)
    assert [row["actual_output"] for block in found for row in block.batch.to_pylist()] == texts
    assert len(found) > 3


def test_ordinary_lists_that_compress_well_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ranking that is the same for everybody looks like a bomb until its rows are counted."""
    monkeypatch.setattr(parquet_plan, "ROW_BYTES", 4 * MIB)
    monkeypatch.setattr(parquet_plan, "BATCH_BYTES", 2 * MIB)
    table = pa.table({"retrieved": pa.array([[f"d{rank}" for rank in range(100)]] * 20_000)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="zstd")
    found = blocks(path)
    assert sum(block.batch.num_rows for block in found) == 20_000
    assert 5 < len(found) < 50


# Avro

SCHEMA = {
    "type": "record",
    "name": "Output",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "retrieved", "type": {"type": "array", "items": "string"}},
    ],
}


def avro_bytes(records: Iterable[Any], schema: Any = SCHEMA, **options: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, **options)
    return sink.getvalue()


def avro_file(body: bytes, count: int, codec: str, schema: Any = SCHEMA) -> bytes:
    """A container put together by hand, for what the writer at hand cannot or will not write."""

    def long(value: int) -> bytes:
        value <<= 1
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    head = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    pairs = b"".join(long(len(part)) + part for pair in head.items() for part in pair)
    sync = b"0123456789abcdef"
    block = long(count) + long(len(body)) + body + sync if count else b""
    return b"Obj\x01" + long(len(head)) + pairs + b"\0" + sync + block


OUTPUTS = [{"id": f"s{number}", "retrieved": [f"d{rank}" for rank in range(number % 6)]} for number in range(9000)]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("block_rows", [1, 7, 65536])
def test_avro_records_are_read(tmp_path: Path, codec: str, block_rows: int) -> None:
    path = written(tmp_path / "a.avro", avro_bytes(OUTPUTS, codec=codec))
    peek(str(path), "avro")
    assert rows(path, block_rows=block_rows) == list(enumerate(OUTPUTS, 1))
    assert max(len(block.records) for block in blocks(path, block_rows=block_rows)) <= min(block_rows, 4096)


RECORD = b"\x02a\x02\x02b\x00"  # {"id": "a", "retrieved": ["b"]}


def snappy(body: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(body, asbytes=True)
    return packed + zlib.crc32(body).to_bytes(4, "big")


@pytest.mark.parametrize(("codec", "pack"), [("zstandard", zstandard.compress), ("snappy", snappy)])
def test_avro_codecs_need_no_further_library(tmp_path: Path, codec: str, pack: Callable[[bytes], bytes]) -> None:
    path = written(tmp_path / "a.avro", avro_file(pack(RECORD * 500), 500, codec))
    assert rows(path) == [(number, {"id": "a", "retrieved": ["b"]}) for number in range(1, 501)]
    assert "does not unpack" in complaint(written(tmp_path / "b.avro", avro_file(pack(RECORD * 500)[:-3], 500, codec)))


def test_unknown_avro_codec_names_the_known_ones(tmp_path: Path) -> None:
    assert "packed with lz4; write it with one of null deflate" in complaint(
        written(tmp_path / "a.avro", avro_file(b"", 0, "lz4"))
    )


def test_only_wanted_avro_fields_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "a.avro", avro_bytes(OUTPUTS))
    assert rows(path, columns=["id", "input"]) == [(number, {"id": f"s{number - 1}"}) for number in range(1, 9001)]
    assert complaint(path, ["query"]) == "has none of the fields query; it has id retrieved"


def test_avro_values_stay_as_they_are_stored(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "Sample",
        "namespace": "org.example",
        "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "seen", "type": {"type": "int", "logicalType": "date"}},
            {"name": "gold", "type": {"type": "map", "values": "double"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "again", "type": ["null", "Kind"]},
        ],
    }
    plain = {"id": "2c0b6bd6-7a3a-4a2c-8a5f-6f8a0c1d2e3f", "seen": 19000, "gold": {"d": 1.0}, "kind": "A", "again": "B"}
    assert rows(written(tmp_path / "a.avro", avro_bytes([plain], schema))) == [(1, plain)]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("string", "does not hold records"),
        ({"type": "record", "name": "R", "fields": []}, "records without content"),
        ({"type": "record", "name": "R", "fields": [{"name": "n", "type": "null"}]}, "records without content"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}]},
            "items without content",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "n", "type": "Unknown"}]}, "cannot be understood"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, "recursive"),
        (
            {
                "type": "record",
                "name": "A",
                "fields": [
                    {
                        "name": "b",
                        "type": {
                            "type": "record",
                            "name": "B",
                            "fields": [{"name": "a", "type": {"type": "map", "values": "A"}}],
                        },
                    }
                ],
            },
            "recursive",
        ),
    ],
)
def test_unsafe_avro_schema_is_refused(tmp_path: Path, schema: Any, reason: str) -> None:
    path = written(tmp_path / "a.avro", avro_file(b"", 0, "null", schema))
    assert reason in peek_complaint(path, "avro")
    assert reason in complaint(path)


def test_doubling_avro_schema_is_refused(tmp_path: Path) -> None:
    """Thirty levels, each holding the one below twice, stand for a thousand million values and need no bytes."""
    inner: Any = "null"
    for level in range(30):
        fields = [{"name": "x", "type": inner}, {"name": "y", "type": inner if level == 0 else f"L{level - 1}"}]
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}, {"name": "t", "type": inner}]}
    assert "more than 10000 values" in complaint(written(tmp_path / "a.avro", avro_file(b"", 0, "null", schema)))


def test_recursive_avro_data_does_not_end_the_process(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "string"}, {"name": "next", "type": ["null", "R"]}],
    }
    body = b"\x02a\x02" * 10_000 + b"\x02a\x00"
    output, _ = apart(READ_APART, written(tmp_path / "a.avro", avro_file(body, 1, "null", schema)))
    assert "recursive schema" in output


def test_broken_avro_is_named(tmp_path: Path) -> None:
    good = avro_bytes(OUTPUTS)
    path = tmp_path / "a.avro"
    for data, reason in [
        (b"", "does not start"),
        (b"PAR1", "does not start"),
        (good[:20], "breaks off"),
        (good[:-1], "breaks off"),
        (good[:-16] + bytes(16), "does not end where it says"),
        (avro_file(RECORD * 3, 2, "null"), "holds more than the records"),
        (avro_file(RECORD * 3, 4, "null"), "damaged after record 3"),
        (avro_file(b"\x02\xff\x00", 1, "null"), "damaged after record 0"),
        (avro_file(b"\xff\xff\xff\xff\x7f", 1, "null"), "damaged after record 0"),
        (b"Obj\x01\x02\xfe\xff\xff\xff\xff\x0f", "header"),
    ]:
        assert reason in complaint(written(path, data))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_avro_bomb_stays_in_bounded_memory(tmp_path: Path, codec: str) -> None:
    zeros = bytes(500 * MIB)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = zstandard.compress(zeros) if codec == "zstandard" else deflate.compress(zeros) + deflate.flush()
    output, peak = apart(READ_APART, written(tmp_path / "a.avro", avro_file(packed, 1, codec)))
    assert "does not unpack" in output
    assert peak < 500


# YAML


def test_yaml_lists_are_read_wherever_they_may_stand(tmp_path: Path) -> None:
    for text in ("- {id: a}\n- {id: b}\n", "samples:\n- id: a\n- id: b\n", "version: 1\noutputs: [{id: a}, {id: b}]\n"):
        for name, data in (("a.yaml", text.encode()), ("a.yml.gz", gzip.compress(text.encode()))):
            assert rows(written(tmp_path / name, data)) == [(1, {"id": "a"}), (2, {"id": "b"})]


@pytest.mark.parametrize("text", ["", "# nothing\n", "samples:\n", "samples: []\n", "[]", "---\n", "\ufeff"])
def test_empty_yaml_yields_nothing(tmp_path: Path, text: str) -> None:
    assert blocks(written(tmp_path / "a.yaml", text)) == []


def test_unquoted_yaml_words_mean_what_json_could_say(tmp_path: Path) -> None:
    words = "[2026-11-18, 2026-11-18T10:00:00Z, no, on, 1e3, 007, 0x1F, 1_000, 12:30, .nan, -0, =, 9999999999999999999]"
    (row,) = rows(written(tmp_path / "a.yaml", f"- {words}\n"))
    assert row[1] == words.strip("[]").split(", ")
    numbers = "- [1, -20, 0, 0.5, -1.5e3, true, False, null, ~, '1', \"true\", !!str 7, 'null']\n"
    (row,) = rows(written(tmp_path / "b.yaml", numbers))
    assert row[1] == [1, -20, 0, 0.5, -1500.0, True, False, None, None, "1", "true", "7", "null"]


def test_yaml_keys_are_text_as_written(tmp_path: Path) -> None:
    (row,) = rows(written(tmp_path / "a.yaml", "- {1: 3, no: 1, 2026-11-18: 2, 1.10: 0}\n"))
    assert row[1] == {"1": 3, "no": 1, "2026-11-18": 2, "1.10": 0}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- id: a\n  gain: 1\n  gain: 0\n", "has the key 'gain' twice in a mapping, again on line 3"),
        ("samples: []\nsamples: []\n", "has the key 'samples' twice"),
        ("- {'a': 1, \"a\": 2}\n", "has the key 'a' twice"),
        ("- &x [a]\n- *x\n", "anchor or alias on line 1"),
        ("- id: a\n- <<: *x\n", "anchor or alias on line 2"),
        ("- !!python/object/apply:os.system [ls]\n", "has a tag on line 1"),
        ("- a\n---\n- b\n", "second document on line 2"),
        ("id: a\n", "neither samples: nor outputs:"),
        ("just words\n", "is not a list of records"),
        ("samples: {id: a}\n", "samples: on line 1 is not a list"),
        ("samples: []\noutputs: []\n", "both samples: and outputs:"),
        ("- {id: a\n", "is not YAML on line 2"),
        ("- id: a\n\tb: c\n", "is not YAML on line 2"),
        ("- [a]: b\n", "a key that is not text on line 1"),
        ("- a\0b\n", "is not YAML"),
        ("[" * 200_000, "nested more than 1000 deep"),
    ],
)
def test_yaml_that_could_mislead_is_broken(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in complaint(written(tmp_path / "a.yaml", text))


def test_yaml_that_is_not_utf8_is_broken(tmp_path: Path) -> None:
    assert complaint(written(tmp_path / "a.yaml", b"- id: \xff\n")) == "is not UTF-8 at byte 6; save it as UTF-8"


def test_alias_bomb_is_refused_unopened(tmp_path: Path) -> None:
    levels = ["- &l0 [lol, lol, lol]"] + [f"- &l{n} [" + ", ".join([f"*l{n - 1}"] * 10) + "]" for n in range(1, 12)]
    output, peak = apart(READ_APART, written(tmp_path / "a.yaml", "\n".join(levels)))
    assert "anchor or alias" in output
    assert peak < 250


def test_large_yaml_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(300):
            file.write(b"- id: a\n" * 125_000)
    output, peak = apart(READ_APART, path)
    assert "more than 64 MiB of YAML" in output
    assert peak < 300


@pytest.mark.parametrize("block_rows", [1, 7, 1024])
def test_block_size_does_not_change_yaml_records(tmp_path: Path, block_rows: int) -> None:
    records = [{"id": f"s{number}", "expected_output": ["a", "b"]} for number in range(100)]
    path = written(tmp_path / "a.yaml", json.dumps({"samples": records}))
    assert rows(path, block_rows=block_rows) == list(enumerate(records, 1))


# Other stores


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet", "a.avro", "a.yaml"])
def test_remote_files_are_read_through_beam(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    makers = {
        "a.jsonl.gz": lambda: gzip.compress(b'{"id": "s0"}\n'),
        "a.parquet": lambda: parquet_bytes(pa.table({"id": ["s0"]})),
        "a.avro": lambda: avro_bytes([{"id": "s0", "retrieved": []}]),
        "a.yaml": lambda: b"- {id: s0}\n",
    }
    local = written(tmp_path / name, makers[name]())
    asked: list[tuple[str, str]] = []

    def opened(path: str, compression_type: str) -> Any:
        asked.append((path, compression_type))
        return local.open("rb")

    monkeypatch.setattr(FileSystems, "open", opened)
    form = FORMATS[str(guess(name))]
    form.peek(f"gs://bucket/{name}")
    remote = list(form.read(f"gs://bucket/{name}", LIMITS, 10, None))
    assert remote == blocks(local)
    assert set(asked) == {(f"gs://bucket/{name}", CompressionTypes.UNCOMPRESSED)}


def test_store_that_does_not_open_is_broken_input() -> None:
    with pytest.raises(BrokenInput, match="nosuch://a/b.jsonl: cannot be opened"):
        list(FORMATS["jsonl"].read("nosuch://a/b.jsonl", LIMITS, 10, None))
