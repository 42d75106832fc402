"""Every limit holds in every format: what breaks it is rejected under its own code, and the join knows of it."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import UsageError
from pipeline.evaluate import evaluate
from pipeline.inputs import InputFile
from pipeline.plan import make_plan
from pipeline.sources import Reading, read_blocks
from transforms.group import Grouping, group
from transforms.limits import BrokenInput, Limits
from transforms.parse import Parsed, Source, Wants

ROOT = Path(__file__).resolve().parent.parent
SMALL = Limits(cell_bytes=40, list_items=6, depth=4)
FINE = {"id": "fine", "retrieved": ["a", "b", "c", "d", "e", "f"], "answer": "x" * 40}
BROKEN: dict[str, dict[str, Any]] = {
    "list_too_long": {"id": "bad", "retrieved": list("abcdefg"), "answer": "x"},
    "cell_too_large": {"id": "bad", "retrieved": ["a"], "answer": "é" * 20 + "x"},
}
DEEP = {"id": "bad", "retrieved": ["a"], "usage": [[[["x"]]]]}
NOT_DEEP = {"id": "fine", "retrieved": ["a"], "usage": [[["x"]]]}


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    elif path.suffix == ".yaml":
        path.write_text(json.dumps(records, ensure_ascii=False))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        nested: Any = {"type": "array", "items": "string"}
        texts = nested
        for _ in range(max(0, str(records[0].get("usage", "")).count("[") - 1)):
            nested = {"type": "array", "items": nested}
        types = {"id": "string", "retrieved": texts, "answer": "string", "usage": nested}
        fields = [{"name": name, "type": types[name]} for name in records[0]]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, records)
    return path


def parsed(path: Path, format: str, limits: Limits = SMALL, side: str = "outputs") -> list[Parsed]:
    sources = (Source(side, 0, path.name),)
    wants = Wants(limits=limits)
    file = InputFile(side, 0, str(path), path.name, format, path.stat().st_size)
    found = list(read_blocks(file, Reading(wants, limits, 1000, sources=sources)))
    if format not in ("trec", "beir"):
        return found
    pieces = [each.block for each in found if each.block is not None]
    return [Parsed(None, each.rejected, each.terms) for each in found] + list(
        group(pieces, Grouping(side, sources, wants))
    )


def outcome(found: list[Parsed]) -> tuple[dict[str, bool], list[str], dict[str, int]]:
    """Id → whether it goes on with a defect; the codes of what was rejected; the terms but notes."""
    rows = [row for each in found if each.block is not None for row in each.block.to_pylist()]
    codes = [row["code"] for each in found if each.rejected is not None for row in each.rejected.to_pylist()]
    terms: Counter[str] = sum((each.terms for each in found), Counter())
    kept = {row["sample_id"]: row["defect"] > 0 for row in rows}
    return kept, codes, {word: n for word, n in terms.items() if not word.startswith("noted")}


@pytest.mark.parametrize("format", ["jsonl", "yaml", "parquet", "avro"])
@pytest.mark.parametrize("code", BROKEN)
def test_a_record_over_a_limit_is_rejected_by_its_code_and_keeps_its_id(tmp_path: Path, format: str, code: str) -> None:
    found = parsed(write(tmp_path / f"a.{format}", [FINE, BROKEN[code]]), format)
    expected = {"outputs.read": 2, f"outputs.rejected.{code}": 1}
    assert outcome(found) == ({"fine": False, "bad": True}, [code], expected)
    (block,) = [each.block for each in found if each.block is not None]
    assert block["docs"].to_pylist()[1] == []


@pytest.mark.parametrize("format", ["jsonl", "yaml", "parquet", "avro"])
def test_a_record_deeper_than_the_limit_is_too_deep(tmp_path: Path, format: str) -> None:
    found = parsed(write(tmp_path / f"a.{format}", [DEEP]), format)
    assert outcome(found) == ({"bad": True}, ["too_deep"], {"outputs.read": 1, "outputs.rejected.too_deep": 1})
    found = parsed(write(tmp_path / f"b.{format}", [NOT_DEEP]), format)
    assert outcome(found) == ({"fine": False}, [], {"outputs.read": 1})


@pytest.mark.parametrize("format", ["trec", "json"])
def test_a_query_over_a_limit_keeps_its_id(tmp_path: Path, format: str) -> None:
    queries = {"fine": list("abcdef"), "bad": list("abcdefg")}
    path = tmp_path / "a"
    if format == "json":
        path.write_text(json.dumps({query: {doc: 1.5 for doc in docs} for query, docs in queries.items()}))
    else:
        path.write_text("".join(f"{q} Q0 {doc} 1 1.5 t\n" for q, docs in queries.items() for doc in docs))
    kept, codes, _ = outcome(parsed(path, format))
    assert (kept, codes) == ({"fine": False, "bad": True}, ["list_too_long"])


@pytest.mark.parametrize(("format", "side"), [("trec", "outputs"), ("trec", "samples"), ("beir", "samples")])
def test_a_long_field_costs_its_line(tmp_path: Path, format: str, side: str) -> None:
    path = tmp_path / "a"
    row = {"outputs": "q Q0 {} 1 1.5 t", "samples": "q\t0\t{}\t1"}[side]
    row = "q\t{}\t1" if format == "beir" else row
    path.write_text("".join(row.format(doc) + "\n" for doc in ("a" * 40, "b" * 41)))
    kept, codes, _ = outcome(parsed(path, format, side=side))
    assert (kept, codes) == ({"q": False}, ["cell_too_large"])


@pytest.mark.parametrize("gold", [list("abcdefg"), dict.fromkeys("abcdefg", 1), [["a"], list("abcdefg")]])
@pytest.mark.parametrize("as_text", [False, True])
def test_gold_over_a_limit_keeps_its_id_in_any_shape(tmp_path: Path, gold: Any, as_text: bool) -> None:
    limits = Limits(list_items=6)
    record = {"id": "bad", "expected_output": json.dumps(gold) if as_text else gold}
    path = write(tmp_path / "a.jsonl", [record])
    kept, codes, _ = outcome(parsed(path, "jsonl", limits, side="samples"))
    assert (kept, codes) == ({"bad": True}, ["list_too_long"])


@pytest.mark.parametrize("key", ["actual_output", "retrieved"])
def test_json_text_in_a_cell_has_the_same_limits(tmp_path: Path, key: str) -> None:
    records = [{"id": "long", key: json.dumps(list("abcdefg"))}, {"id": "deep", key: "[[[[[1]]]]]"}]
    for format in ("jsonl", "parquet"):
        kept, codes, _ = outcome(parsed(write(tmp_path / f"a.{format}", records), format))
        assert (kept, codes) == ({"long": True, "deep": True}, ["list_too_long", "too_deep"])


def test_a_plain_text_of_many_brackets_is_still_a_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"id": "a", "expected_output": "[[[[[[[ see"}])
    assert outcome(parsed(path, "jsonl", side="samples"))[1] == []


@pytest.mark.parametrize("as_table", [False, True])
def test_evaluate_has_the_default_limits_and_does_not_raise(as_table: bool) -> None:
    giant = {"id": "a", "retrieved": ["d"], "answer": "x" * (Limits().cell_bytes + 1)}
    outputs: Any = pa.Table.from_pylist([giant]) if as_table else [giant]
    found = evaluate([{"id": "a", "expected_output": ["d"]}], outputs, metrics="hit@5")
    assert found.rejected["code"].to_pylist() == ["cell_too_large"]
    assert found.rows["status"].to_pylist() == ["bad_output"]


@pytest.mark.parametrize("format", ["jsonl.gz", "parquet", "avro"])
def test_a_file_expands_only_so_far(tmp_path: Path, format: str) -> None:
    records = [{"id": f"s{i}", "retrieved": ["d" * 1000]} for i in range(2000)]
    path = tmp_path / f"a.{format}"
    if format == "avro":
        schema = {"type": "record", "name": "r", "fields": [
            {"name": "id", "type": "string"}, {"name": "retrieved", "type": {"type": "array", "items": "string"}},
        ]}  # fmt: skip
        with path.open("wb") as out:
            fastavro.writer(out, schema, records, codec="deflate")
    elif format == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path, compression="zstd")
    else:
        path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    kind = format.split(".")[0]
    with pytest.raises(BrokenInput, match=r"raise limits\.file_bytes \(now 100000\) or limits\.file_ratio \(now 10\)"):
        parsed(path, kind, Limits(file_bytes=100_000, file_ratio=10))
    for enough in (Limits(file_bytes=10_000_000, file_ratio=1), Limits(file_bytes=1, file_ratio=100_000)):
        assert outcome(parsed(path, kind, enough))[2] == {"outputs.read": 2000}


def test_a_limit_cannot_be_raised_past_what_the_steps_hold() -> None:
    with pytest.raises(UsageError, match="depth 201: the most it can be is 200"):
        make_plan({}, {"limits": {"depth": 201}}, require=())


# Through the command


def run(folder: Path, outputs: str, plan: str = "") -> tuple[subprocess.CompletedProcess[str], int]:
    """The command in a process of its own, and its peak memory in MiB."""
    (folder / "plan.toml").write_text(plan)
    (folder / "s.jsonl").write_text('{"id": "a", "expected_output": ["d"]}\n{"id": "b", "expected_output": ["d"]}\n')
    code = (
        "import sys\nfrom pipeline.cli import main\ncode = main(sys.argv[1:])\n"
        "print('\\npeak', int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) // 1024)\n"
        "sys.stdout.flush()\nsys.exit(code)\n"
    )
    arguments = ["run", "--samples", "s.jsonl", "--outputs", outputs, "--out", "runs", "--plan", "plan.toml"]
    arguments += ["--max-rejects", "100%", "--run-date", "2026-11-18"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done, int(done.stdout.rpartition("\npeak ")[2])


def rejected(folder: Path) -> tuple[list[str], dict[str, Any]]:
    (attempt,) = (folder / "runs" / "run_date=2026-11-18").glob("attempt=*")
    codes = [row["code"] for path in attempt.glob("rejected/*.parquet") for row in pq.read_table(path).to_pylist()]
    return codes, json.loads((attempt / "ledger.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("format", ["jsonl", "yaml", "parquet", "avro"])
def test_the_plans_limits_reach_the_run(tmp_path: Path, format: str) -> None:
    records = [{"id": "a", "retrieved": ["d"]}, {"id": "b", "retrieved": ["d", "e", "f"]}]
    write(tmp_path / f"o.{format}", records)
    done, _ = run(tmp_path, f"o.{format}", "[limits]\nlist_items = 2\n")
    assert done.returncode == 0, done.stderr
    codes, ledger = rejected(tmp_path)
    assert codes == ["list_too_long"]
    assert (ledger["outputs"]["read"], ledger["outputs"]["rejected"]) == (2, 1)


@pytest.mark.slow
def test_ten_lines_of_100_mb_are_rejected_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "o.jsonl").open("w") as out:
        out.write('{"id": "a", "retrieved": ["d"]}\n')
        for _ in range(10):
            out.write('{"id": "b", "answer": "')
            for _ in range(100):
                out.write("x" * 10**6)
            out.write('"}\n')
    done, peak = run(tmp_path, "o.jsonl")
    assert done.returncode == 0, done.stderr
    assert rejected(tmp_path)[0] == ["too_large"] * 10
    assert 50 < peak < 500, peak


@pytest.mark.slow
@pytest.mark.parametrize("bomb", ["gzip", "parquet"])
def test_a_bomb_fails_the_run_by_name_in_bounded_memory(tmp_path: Path, bomb: str) -> None:
    path = tmp_path / ("o.jsonl.gz" if bomb == "gzip" else "o.parquet")
    if bomb == "gzip":
        with gzip.open(path, "wb", compresslevel=9) as out:
            for _ in range(1000):
                out.write(b'{"id": "a", "retrieved": ["d"]}' + b" " * 10**6 + b"\n")
    else:
        # 3,000 rows of one document id of 7 MiB: 20 GB.
        ids = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["d" * (7 << 20)]))
        lists = pa.ListArray.from_arrays(pa.array(range(3001), pa.int32()), ids)
        table = pa.table({"id": [f"s{i}" for i in range(3000)], "retrieved": lists})
        options: dict[str, Any] = {"dictionary_pagesize_limit": 1 << 30, "write_statistics": False}
        pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    assert path.stat().st_size < 2_000_000
    done, peak = run(tmp_path, path.name)
    assert done.returncode in (1, 3), done.stderr
    assert f"{path.name}: unpacks to more than" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs" / "run_date=2026-11-18" / "CURRENT").exists()
    assert 50 < peak < 700, peak
