"""Mutated files of every container, read to the end in a process of their own.

`python -m tests.fuzz_containers KIND START STOP FOLDER` prints what became of each; the file in hand stays in FOLDER,
so that a process which dies leaves behind what killed it.
"""

import faulthandler
import gzip
import io
import json
import random
import resource
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zstandard

from pipeline.errors import UsageError
from pipeline.formats.parquet_pages import read_footer, survey
from pipeline.inputs import InputFile
from pipeline.plan import Plan, load_plan, make_plan
from pipeline.sources import Reading, is_long, read_blocks
from transforms.group import group
from transforms.limits import BrokenInput, Limits
from transforms.parse import Parsed, Source, Wants

from .datasets import random_outputs, random_samples
from .fuzz_mutate import mutate_bytes

SEED = 20261118
ADDRESS_SPACE = 4 << 30
SECONDS = 30
_RNG = random.Random(SEED)
SAMPLES = random_samples(_RNG, 60)
OUTPUTS = random_outputs(_RNG, SAMPLES)
LISTS = [[f"doc-{(i * 7 + rank) % 50}" for rank in range(i % 6)] for i in range(60)]
IDS = [f"q-{i}" for i in range(60)]


def parquet(variant: int) -> bytes:
    tables = [
        {"id": IDS, "retrieved": LISTS},
        {"id": IDS, "actual_output": [[{"id": d, "text": f"text of {d}", "score": 0.5} for d in row] for row in LISTS]},
        {
            "id": list(range(60)),
            "actual_output": [{"retrieved": row, "error": None} for row in LISTS],
            "cost": [0.5] * 60,
        },
        {"id": pa.array(IDS).dictionary_encode(), "retrieved": pa.array(LISTS, pa.large_list(pa.string()))},
        {"id": IDS, "actual_output": [json.dumps(row) for row in LISTS], "error": [None, "x"] * 30},
    ]
    options: list[dict[str, Any]] = [
        {"compression": "none"},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "use_dictionary": False, "row_group_size": 17},
        {"compression": "none", "use_dictionary": False, "column_encoding": {"id": "DELTA_BYTE_ARRAY"}},
        {"compression": "lz4", "data_page_size": 200},
        {"compression": "snappy", "row_group_size": 25},
        {"compression": "brotli"},
    ]
    chosen = options[variant % len(options)]
    table = tables[variant % (3 if "column_encoding" in chosen else len(tables))]
    if "column_encoding" in chosen:
        table = tables[0]
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink, write_page_checksum=variant % 3 > 0, **chosen)
    return sink.getvalue()


def autorag(variant: int) -> bytes:
    sink = io.BytesIO()
    groups = [[row[:2], row[2:]] for row in LISTS]
    table = {"qid": IDS, "query": IDS, "retrieval_gt": groups, "generation_gt": [["a", "b"]] * 60}
    pq.write_table(
        pa.table(table), sink, write_page_checksum=variant % 2 > 0, compression=["none", "snappy"][variant % 2]
    )
    return sink.getvalue()


def avro(variant: int) -> bytes:
    entry = {
        "type": "record",
        "name": "E",
        "fields": [{"name": "id", "type": "string"}, {"name": "score", "type": "double"}],
    }
    items: Any = ["string", entry, ["null", "string"]][variant % 3]
    fields = [
        {"name": "id", "type": "string"},
        {"name": "retrieved", "type": {"type": "array", "items": items}},
        {"name": "error", "type": ["null", "string"], "default": None},
    ]
    made = [[{"id": doc, "score": 0.5} for doc in row] if variant % 3 == 1 else row for row in LISTS]
    records = [{"id": key, "retrieved": row, "error": None} for key, row in zip(IDS, made, strict=True)]
    sink = io.BytesIO()
    codec = ["null", "null", "deflate", "bzip2", "xz"][variant % 5]
    fastavro.writer(sink, {"type": "record", "name": "R", "fields": fields}, records, codec=codec, sync_interval=600)
    return sink.getvalue()


def jsonl(variant: int) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in OUTPUTS)


def yaml_text(variant: int) -> bytes:
    held: Any = {"samples": SAMPLES[:20]} if variant % 2 else SAMPLES[:20]
    return yaml.safe_dump(held, allow_unicode=True, default_flow_style=[False, True, None][variant % 3]).encode()


def qrels(variant: int) -> bytes:
    return "".join(
        f"{key} 0 {doc} {len(doc) % 3}\n" for key, row in zip(IDS, LISTS, strict=True) for doc in row
    ).encode()


def run_file(variant: int) -> bytes:
    lines = [(key, doc, rank) for key, row in zip(IDS, LISTS, strict=True) for rank, doc in enumerate(row, 1)]
    return "".join(f"{key} Q0 {doc} {rank} {1 / rank:.6f} tag\n" for key, doc, rank in lines).encode()


def beir(variant: int) -> bytes:
    head = "query-id\tcorpus-id\tscore\n" if variant % 2 else ""
    return (head + "".join(f"{k}\t{d}\t1\n" for k, row in zip(IDS, LISTS, strict=True) for d in row)).encode()


def json_map(variant: int) -> bytes:
    return json.dumps({k: {d: i / 7 for i, d in enumerate(row)} for k, row in zip(IDS, LISTS, strict=True)}).encode()


def toml(variant: int) -> bytes:
    return b"""samples = ["data/samples*.jsonl", "more.jsonl"]
outputs = "data/outputs.parquet"
out = "runs/"
metrics = ["hit@5", "recall@5,10", "ndcg(gain=exp2)@10", "mrr"]
k = 7
dialect = "standard"
slice-by = ["lang", "tags"]
missing = "zero"
run_date = 2026-11-18
replace = true
max-rejects = "1.5%"
buckets = 4
block_rows = 1024
ties = "trec"
[fields]
id = "qid"
samples.expected_output = "gold.docs"
[limits]
line_bytes = 1000000
depth = 32
"""


MAKERS: dict[str, tuple[Callable[[int], bytes], str, str, str]] = {
    "parquet": (parquet, "outputs", "parquet", "parquet"),
    "autorag": (autorag, "samples", "autorag", "parquet"),
    "avro": (avro, "outputs", "avro", "avro"),
    "jsonl.gz": (lambda variant: gzip.compress(jsonl(variant), mtime=0), "outputs", "jsonl", "jsonl.gz"),
    "jsonl.zst": (lambda variant: zstandard.compress(jsonl(variant)), "outputs", "jsonl", "jsonl.zst"),
    "yaml": (yaml_text, "samples", "yaml", "yaml"),
    "qrels": (qrels, "samples", "trec", "qrels"),
    "run": (run_file, "outputs", "trec", "run"),
    "beir": (beir, "samples", "beir", "tsv"),
    "json": (json_map, "outputs", "json", "json"),
    "toml": (toml, "", "", "toml"),
}
VARIANTS = 70
"""Enough to meet every table with every way of writing it."""


@cache
def good(kind: str, variant: int) -> bytes:
    return MAKERS[kind][0](variant)


def mutated(kind: str, index: int) -> bytes:
    """File `index` of a kind: bytes changed in its head, its end or anywhere, cut off, joined, or its lengths set."""
    rng = random.Random(f"{SEED} {kind} {index}")
    data, other = good(kind, index % VARIANTS), good(kind, rng.randrange(VARIANTS))
    way = rng.randrange(10)
    if way == 0:
        return data[: rng.randrange(len(data))]
    if way == 1:
        return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]
    if way == 2:
        return data + other
    changed = bytearray(data)
    if way == 3:
        at = rng.randrange(len(data))
        until = min(len(data), at + rng.choice([1, 8, 64, 512]))
        changed[at:until] = bytes(until - at)
        return bytes(changed)
    if way == 4 and len(data) > 8:
        # A length is somewhere: four bytes, or a run of continued ones, that promise far too much.
        at = rng.choice([rng.randrange(len(data) - 8), len(data) - 8])
        huge = [
            struct.pack("<I", 0x7FFFFFFF),
            b"\xff" * 9 + b"\x01",
            b"\xfe\xff\xff\xff\x0f",
            struct.pack("<I", 1 << 31),
        ]
        new = rng.choice(huge)
        changed[at : at + len(new)] = new
        return bytes(changed)
    if way == 5:
        return mutate_bytes(rng, data, other)
    near = {6: (0, min(len(data), 200)), 7: (max(0, len(data) - 600), len(data))}.get(way, (0, len(data)))
    for _ in range(rng.choice([1, 1, 1, 3])):
        at = rng.randrange(*near)
        changed[at] = changed[at] ^ 1 << rng.randrange(8) if rng.random() < 0.6 else rng.randrange(256)
    return bytes(changed)


def outcome(kind: str, path: Path) -> str:
    """What reading the file came to. Anything that is not allowed is raised."""
    if kind == "toml":
        return _plan_outcome(path)
    _, side, form, _ = MAKERS[kind]
    file = InputFile(side, 0, str(path), str(path), form, path.stat().st_size)
    reading = Reading(Wants(("lang",), texts=True), Limits(), 50, sources=(Source(side, 0, str(path)),))
    try:
        found = list(_parsed(file, reading))
    except BrokenInput as broken:
        if broken.path != str(path) or "\n" in str(broken) or not broken.reason:
            raise AssertionError(f"does not name the file in one line: {broken}") from broken
        return "broken"
    terms: Counter[str] = sum((each.terms for each in found), Counter())
    read = terms[f"{side}.read"]
    rejected = sum(each.rejected.num_rows for each in found if each.rejected is not None)
    if rejected != sum(count for term, count in terms.items() if ".rejected." in term):
        raise AssertionError(f"{rejected} rows of rejected records are not what was counted: {terms}")
    blocks = [each.block for each in found if each.block is not None]
    going_on = sum(block.num_rows for block in blocks)
    flawed = sum(int((block["defect"].to_numpy() != 0).sum()) for block in blocks)
    if read != going_on + rejected - flawed:
        raise AssertionError(f"{read} read, {going_on} go on, {rejected} rejected, {flawed} of them with an id")
    _count_again(kind, path, read, terms, side)
    return "rejects" if rejected else "records"


def _parsed(file: InputFile, reading: Reading) -> Iterator[Parsed]:
    if not is_long((file,)):
        yield from read_blocks(file, reading)
        return
    pieces = []
    for each in read_blocks(file, reading):
        if each.block is not None:
            pieces.append(each.block)
        yield Parsed(None, each.rejected, each.terms)
    if pieces:
        yield from group(pieces, reading.grouping(file.side))


def _count_again(kind: str, path: Path, read: int, terms: Counter[str], side: str) -> None:
    """How many records there are, by another reader or by plain counting, where there is one that may be trusted."""
    counted: int | None = None
    if kind in ("qrels", "run", "beir"):
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
        counted = sum(1 for line in lines if line.strip())
        header = (
            lines[0].strip().lower().split(b"\t")[-1].strip() in (b"score", b"relevance", b"rel") and kind == "beir"
        )
        read = terms[f"noted.{side}.lines"]
        counted -= header and lines[0].count(b"\t") == 2
    elif kind == "json":
        body = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        counted = len(json.loads(body.decode(errors="replace"))) if body.strip() else 0
    elif kind.startswith("jsonl"):
        packed = path.read_bytes()
        if kind == "jsonl.gz":
            text = gzip.decompress(packed)
        else:
            text = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True).read()
        counted = sum(1 for line in text.split(b"\n") if line.strip(b" \t\r\v\f"))
    elif kind == "yaml":
        try:
            held = yaml.safe_load(path.read_bytes())
        except (yaml.YAMLError, ValueError):
            return  # the reader in Python is stricter than the one in C: tabs, dates that do not exist
        held = held.get("samples", held.get("outputs")) if isinstance(held, dict) else held
        counted = len(held or [])
    elif kind == "avro":
        try:
            counted = sum(1 for _ in fastavro.reader(io.BytesIO(path.read_bytes())))
        except UnicodeDecodeError:
            return  # in a name of the header that nobody reads
    if counted is not None and counted != read:
        raise AssertionError(f"{read} read, and there are {counted}")


def _plan_outcome(path: Path) -> str:
    try:
        plan = make_plan({}, load_plan(str(path)))
    except UsageError as error:
        if "\n" in str(error):
            raise AssertionError(f"not one line: {error}") from error
        return "usage"
    return "plan" if isinstance(plan, Plan) else "?"


def page_bytes(path: Path) -> list[int]:
    """Where the bodies of the pages of a Parquet file lie: all that a checksum covers."""
    metadata = pq.read_metadata(path)
    found: list[int] = []
    with pa.OSFile(str(path)) as file:
        for row_group in read_footer(file):
            for leaf in range(metadata.num_columns):
                chunk = survey(file, row_group, leaf, metadata.schema.column(leaf))
                for page in [*chunk.pages, *([chunk.dictionary] if chunk.dictionary else [])]:
                    found += range(page.offset, page.offset + page.compressed)
    return found


def main(kind: str, start: int, stop: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    path = folder / f"current.{MAKERS[kind][3]}"
    outcomes: Counter[str] = Counter()
    for index in range(start, stop):
        data = mutated(kind, index)
        path.write_bytes(data)
        (folder / "index").write_text(str(index))
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        outcomes[outcome(kind, path)] += 1
        faulthandler.cancel_dump_traceback_later()
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    print(json.dumps({"outcomes": outcomes, "peak_mib": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
