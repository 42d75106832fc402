"""Other people's files, from bytes to committed numbers: TREC, BEIR, AutoRAG, and maps in JSON."""

import gzip
import json
import random
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli import main
from pipeline.commit import open_run
from pipeline.evaluate import evaluate
from pipeline.formats import FORMATS, guess, json_map
from pipeline.formats.beir import QRELS as BEIR
from pipeline.formats.longlines import parse_lines
from pipeline.formats.trec import QRELS, RUN, read_qrels, read_run
from transforms.limits import MIB, BrokenInput, Limits
from transforms.records import Long

from .datasets import write_jsonl

METRICS = "recall@2,mrr,ndcg,map,precision@2"
QRELS_TEXT = "q1 0 a 2\nq1 0 b 0\nq1 0 c 1\nq2 0 x 1\nq3 0 y -1\nq3 0 z 1\n"
RUN_TEXT = "q1 Q0 b 1 0.9 t\nq1 Q0 a 2 0.8 t\nq1 Q0 c 3 0.8 t\nq2 Q0 y 1 2 t\nq2 Q0 x 2 1e0 t\n"
SAMPLES = [
    {"id": "q1", "expected_output": {"a": 2, "b": 0, "c": 1}},
    {"id": "q2", "expected_output": {"x": 1}},
    {"id": "q3", "expected_output": {"y": -1, "z": 1}},
]
OUTPUTS = [{"id": "q1", "retrieved": ["b", "c", "a"]}, {"id": "q2", "retrieved": ["y", "x"]}]


def run(folder: Path, samples: Any, outputs: Any, *flags: str) -> int:
    if str(samples).endswith(".json"):
        flags = ("--samples-format", "json", *flags)
    if str(outputs).endswith(".json"):
        flags = ("--outputs-format", "json", *flags)
    given_files = ["--samples", str(samples), "--outputs", str(outputs), "--out", str(folder / "runs")]
    return main(["run", *given_files, "--run-date", "2026-11-18", "--replace", "--metrics", METRICS, *flags])


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    return bits(open_run(str(folder / "runs")).per_sample())


def bits(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [[v.hex() if isinstance(v, float) else v for v in column.to_pylist()] for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def ledger_of(folder: Path) -> dict[str, Any]:
    return open_run(str(folder / "runs")).manifest["ledger"]


def rejected_of(folder: Path) -> list[tuple[str, str]]:
    rows = open_run(str(folder / "runs")).rejected().to_pylist()
    return sorted((Path(row["location"]).name, row["code"]) for row in rows)


DIRECT = bits(evaluate(SAMPLES, OUTPUTS, metrics=METRICS).rows)


def write_side(folder: Path, side: str, form: str) -> Path:
    """The same samples, or outputs, as a file of some format."""
    text = QRELS_TEXT if side == "samples" else RUN_TEXT
    records = SAMPLES if side == "samples" else OUTPUTS
    path = folder / f"{side}.{form}"
    if form in ("qrels", "run"):
        path.write_text(text)
    elif form.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif form.endswith(".zst"):
        path.write_bytes(zstandard.compress(text.encode()))
    elif form == "jsonl":
        write_jsonl(path, records)
    elif form == "json":
        lines = [line.split() for line in text.splitlines()]
        maps: dict[str, dict[str, float]] = {}
        for fields in lines:
            maps.setdefault(fields[0], {})[fields[2]] = float(fields[3 if side == "samples" else 4])
        path.write_text(json.dumps(maps))
    elif form == "tsv":
        path = folder / "qrels.tsv"
        rows = [line.split() for line in text.splitlines()]
        path.write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{rel}\n" for q, _, d, rel in rows))
    return path


@pytest.mark.parametrize("samples", ["qrels", "trec.gz", "qrels.zst", "tsv", "json", "jsonl"])
@pytest.mark.parametrize("outputs", ["run", "trec.gz", "json", "jsonl"])
def test_every_pair_of_formats_gives_the_same_numbers(tmp_path: Path, samples: str, outputs: str) -> None:
    files = write_side(tmp_path, "samples", samples), write_side(tmp_path, "outputs", outputs)
    assert run(tmp_path, *files) == 0
    assert rows_of(tmp_path) == DIRECT
    ledger = ledger_of(tmp_path)
    assert (ledger["samples"]["read"], ledger["outputs"]["read"]) == (3, 2)
    assert ledger["noted"].get("samples.lines") == (None if samples in ("json", "jsonl") else 6)
    assert ledger["noted"].get("outputs.lines") == (None if outputs in ("json", "jsonl") else 5)
    assert ledger["noted"].get("outputs.tied_lists") == (None if outputs == "jsonl" else 1)


@pytest.mark.parametrize("ties, order", [("trec", "bca"), ("trec10", "bca"), ("given", "bac")])
def test_ties_flag_reaches_the_order(tmp_path: Path, ties: str, order: str) -> None:
    files = write_side(tmp_path, "samples", "qrels"), write_side(tmp_path, "outputs", "run")
    assert run(tmp_path, *files, "--ties", ties) == 0
    outputs = [{"id": "q1", "retrieved": list(order)}, OUTPUTS[1]]
    assert rows_of(tmp_path) == bits(evaluate(SAMPLES, outputs, metrics=METRICS).rows)


def big(folder: Path, queries: int, docs: int, parts: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Qrels and a run with ties that only float32 sees, as .gz files; and both as pytrec_eval has them."""
    rng = np.random.default_rng(20261118)
    qrels: dict[str, dict[str, int]] = {}
    ranked: dict[str, dict[str, float]] = {}
    runs = [gzip.open(folder / f"part{i}.run.gz", "wt", compresslevel=1) for i in range(parts)]
    with gzip.open(folder / "all.qrels.gz", "wt", compresslevel=1) as judged:
        for q in range(queries):
            pool = rng.choice(docs * 20, docs, replace=False)
            scores = (
                np.round(rng.random(docs) * rng.choice([1.0, 10.0, 12345.678]), 3) + rng.integers(0, 3, docs) * 1e-9
            )
            ranked[f"q{q}"] = {f"doc{d}": float(f"{s:.13g}") for d, s in zip(pool, scores, strict=True)}
            for rank, (doc, score) in enumerate(ranked[f"q{q}"].items()):
                runs[rank % parts].write(f"q{q} Q0 {doc} {rank} {score!r} tag\n")
            some = rng.choice(pool, min(30, docs), replace=False).tolist() + rng.integers(0, docs * 20, 5).tolist()
            qrels[f"q{q}"] = {f"doc{d}": int(rng.integers(-1, 4)) for d in some}
            judged.writelines(f"q{q}\t0  {doc} {rel}\r\n" for doc, rel in qrels[f"q{q}"].items())
    for file in runs:
        file.close()
    return qrels, ranked


OURS = {"map": "map", "ndcg": "ndcg", "ndcg@10": "ndcg_cut_10", "recall@100": "recall_100"}
OURS |= {"precision@10": "P_10", "mrr": "recip_rank"}
THEIRS = {"map", "ndcg", "ndcg_cut.10", "recall.100", "P.10", "recip_rank"}


def agree(folder: Path, qrels: dict[str, Any], ranked: dict[str, Any]) -> None:
    expected = pytrec_eval.RelevanceEvaluator(qrels, THEIRS).evaluate(ranked)
    committed = open_run(str(folder / "runs"))
    rows = committed.per_sample().to_pylist()
    assert len(rows) == len(qrels) * len(OURS)  # else nothing would be compared
    for row in rows:
        assert abs(row["value"] - expected[row["sample_id"]][OURS[row["metric"]]]) < 1e-9, row
    means = {row["metric"]: row["mean"] for row in committed.summary().to_pylist()}
    for ours, theirs in OURS.items():
        assert abs(means[ours] - sum(each[theirs] for each in expected.values()) / len(expected)) < 1e-9


@pytest.mark.slow
def test_a_run_of_a_million_lines_gives_the_numbers_of_pytrec_eval(tmp_path: Path) -> None:
    qrels, ranked = big(tmp_path, 1000, 1000)
    tied = sum(len(set(np.float32(list(one.values())))) < len(set(one.values())) for one in ranked.values())
    assert tied > 100  # else the rule for ties would not have been asked
    flags = ["--dialect", "trec", "--metrics", ",".join(OURS)]
    assert run(tmp_path, tmp_path / "all.qrels.gz", tmp_path / "part*.run.gz", *flags) == 0
    agree(tmp_path, qrels, ranked)
    ledger = ledger_of(tmp_path)
    assert ledger["outputs"]["read"] == ledger["outputs"]["matched"] == 1000
    assert ledger["noted"]["outputs.lines"] == ledger["noted"]["outputs.lines_grouped"] == 1_000_000


WAYS = [["--buckets", "1"], ["--buckets", "7", "--block-rows", "1"], ["--buckets", "64", "--block-rows", "13"]]


@pytest.mark.parametrize("way", WAYS)
def test_queries_that_span_files_give_the_same_whatever_the_blocks_and_buckets(tmp_path: Path, way: list[str]) -> None:
    qrels, ranked = big(tmp_path, 12, 40, parts=3)
    flags = ["--dialect", "trec", "--metrics", ",".join(OURS), *way]
    assert run(tmp_path, tmp_path / "all.qrels.gz", tmp_path / "part*.run.gz", *flags) == 0
    agree(tmp_path, qrels, ranked)
    assert ledger_of(tmp_path)["outputs"]["read"] == 12


BAD_RUN = (
    b"\xef\xbb\xbfq1 Q0 a 1 3.5 t\r\n"  # 1: a byte order mark
    b"\r\n"  # 2: blank
    b"q1\tQ0   b\t2 2.5   t  \n"  # 3: tabs and many spaces
    b"q1 Q0 c 3 1.5\n"  # 4: too few fields
    b"q1 Q0 d 4 high t\n"  # 5: no number
    b"q1 Q0 e 5 nan t\n"  # 6
    b"q1 Q0 f 6 1e999 t\n"  # 7
    b"q1 Q0 \xff 7 0.5 t\n"  # 8: not UTF-8
    b"\xe3\x80\x80 Q0 g 8 0.4 t\n"  # 9: the query is an ideographic space
    b"q1 Q0 \xc2\xa0 9 0.3 t\n"  # 10: the document is a no-break space
    b"q1 Q0 a b 10 0.2 t\n"  # 11: too many fields
    b"   \t \n"  # 12: blank
    b"q1 Q0 z\xc2\xa0z last 0.1 t"  # 13: white space of Unicode inside an id, a rank that is none, no newline
)


def test_malformed_lines_are_rejected_each_with_its_place_and_the_rest_is_scored(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q1 0 z\u00a0z 1\nq1 0 b 1\nq1 0 c one\nq1 0 d inf\nq1 0\n")
    (tmp_path / "a.run").write_bytes(BAD_RUN)
    assert run(tmp_path, tmp_path / "a.qrels", tmp_path / "a.run", "--max-rejects", "100%") == 0
    run_codes = {4: "bad_line", 5: "bad_line", 6: "non_finite", 7: "non_finite", 8: "bad_utf8", 9: "missing_id"}
    run_codes |= {10: "bad_line", 11: "bad_line"}
    expected = [(f"a.run:{line}", code) for line, code in run_codes.items()]
    expected += [("a.qrels:3", "bad_line"), ("a.qrels:4", "non_finite"), ("a.qrels:5", "bad_line")]
    assert rejected_of(tmp_path) == sorted(expected)
    ledger = ledger_of(tmp_path)
    assert ledger["samples"] == {"read": 4, "joined": 1, "missing": 0, "rejected": 3, "duplicate": 0}
    assert ledger["outputs"] == {"read": 9, "matched": 1, "unmatched": 0, "rejected": 8, "duplicate": 0}
    lines = {word: ledger["noted"][f"outputs.{word}"] for word in ("lines", "lines_grouped", "lines_rejected")}
    assert lines == {"lines": 11, "lines_grouped": 3, "lines_rejected": 8}
    direct = evaluate(
        [{"id": "q1", "expected_output": {"z\u00a0z": 1, "b": 1}}],
        [{"id": "q1", "retrieved": ["a", "b", "z\u00a0z"]}],
        metrics=METRICS,
    )
    assert rows_of(tmp_path) == bits(direct.rows)


def test_previews_and_reasons_name_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_text("q1 0 a 1\n")
    (tmp_path / "a.run").write_text("q1 Q0 a 1 1 t\nq1 a 0.5\n")
    assert run(tmp_path, tmp_path / "a.qrels", tmp_path / "a.run", "--max-rejects", "100%") == 0
    (row,) = open_run(str(tmp_path / "runs")).rejected().to_pylist()
    assert row["message"] == ("expected 6 fields separated by white space (query Q0 document rank score tag), found 3")
    assert row["preview"] == "q1 a 0.5"


def test_a_lost_line_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import transforms.group as group_module

    whole = group_module.gather

    def lose_one(pieces: pa.RecordBatch) -> Any:
        queries = whole(pieces)
        return queries.kept(np.arange(len(queries.docs)) > 0)

    monkeypatch.setattr(group_module, "gather", lose_one)
    files = write_side(tmp_path, "samples", "qrels"), write_side(tmp_path, "outputs", "jsonl")
    assert run(tmp_path, *files) == 3
    assert "samples: 6 lines read is not 5 grouped + 0 rejected" in capsys.readouterr().err


def blocks(path: Path, read: Any, **more: Any) -> list[Any]:
    return list(read(str(path), Limits(**more), 65536))


def test_a_line_over_the_limit_is_too_large_whether_or_not_it_fits_a_piece(tmp_path: Path) -> None:
    (tmp_path / "a.qrels").write_bytes(b"q 0 a 1\nq 0 " + b"b" * 500 + b" 1\nq 0 c 1\nq 0 " + b"d" * 3 * MIB + b" 1\n")
    refused = [each for long in blocks(tmp_path / "a.qrels", read_qrels, line_bytes=100) for each in long.refused]
    assert [(each.number, each.code) for each in refused] == [(2, "too_large"), (4, "too_large")]


# Spelled so that no two spellings of white space or of a number are treated alike by chance.
WORDS = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\t\n\v\f\r "), min_size=1, max_size=4)
GAPS = st.text(" \t\v\f", min_size=1, max_size=3)


@given(st.lists(st.tuples(WORDS, WORDS, st.floats(allow_nan=False, allow_infinity=False), GAPS), max_size=8))
def test_lines_are_split_as_bytes_are(lines: list[tuple[str, str, float, str]]) -> None:
    text = "\n".join(gap.join((query, "0", doc, repr(value))) for query, doc, value, gap in lines)
    found = parse_lines(1, text.encode(), QRELS, Limits())
    plain = [(number, line.split()) for number, line in enumerate(text.encode().split(b"\n"), 1) if line.strip()]
    wanted = [
        (number, fields[0].decode(), fields[2].decode(), float(fields[3]))
        for number, fields in plain
        if fields[0].decode().strip() and fields[2].decode().strip()
    ]
    ids, docs = found.sample_ids.to_pylist(), found.docs.to_pylist()
    assert list(zip(found.numbers.tolist(), ids, docs, found.values.tolist(), strict=True)) == wanted
    assert found.lines == len(plain)


@given(st.lists(st.one_of(st.text("0123456789+-.eEnaif_x ", max_size=6), st.floats().map(repr)), max_size=6))
def test_a_number_is_one_whatever_stands_beside_it(words: list[str]) -> None:
    words = [word.replace(" ", "") or "0" for word in words]

    def codes(texts: list[str]) -> list[str]:
        found = parse_lines(1, "\n".join(f"q 0 d{i} {text}" for i, text in enumerate(texts)).encode(), QRELS, Limits())
        refused = {each.number: each.code for each in found.refused}
        return [refused.get(number, "fine") for number in range(1, len(texts) + 1)]

    # "high" sends the whole piece down the slow path.
    assert codes([*words, "high"])[:-1] == [codes([word])[0] for word in words]


def test_beir_is_read_with_and_without_its_header_and_with_no_quoting() -> None:
    body = b'query-id\tcorpus-id\tscore\r\n"q 1"\tdoc "x\t1\r\nq2\t\t1\nq3\td\t 2 \n\n\td\t1\nq4\td\tscore\nq5 d 1'
    found = parse_lines(1, body, BEIR, Limits())
    assert list(zip(found.sample_ids.to_pylist(), found.docs.to_pylist(), found.values.tolist(), strict=True)) == [
        ('"q 1"', 'doc "x', 1.0),
        ("q3", "d", 2.0),
    ]
    assert found.numbers.tolist() == [2, 4]
    assert [(each.number, each.code) for each in found.refused] == [
        (3, "bad_line"),
        (6, "missing_id"),
        (7, "bad_line"),  # a header anywhere else is a line that is none
        (8, "bad_line"),
    ]
    assert found.lines == 6
    assert parse_lines(1, b"q1\td\t1", BEIR, Limits()).sample_ids.to_pylist() == ["q1"]


def test_an_empty_piece_is_no_lines() -> None:
    for body in (b"", b"\n\n", b" \r\n\t"):
        found = parse_lines(1, body, RUN, Limits())
        assert (found.lines, len(found.numbers), found.refused) == (0, 0, [])


@pytest.mark.parametrize("nested", [True, False])
def test_autorag_samples_are_read_under_their_own_names(tmp_path: Path, nested: bool) -> None:
    gold: list[Any] = [[["a", "b"], ["c"]], [["d"]], [[]]] if nested else [["a"], ["d"], []]
    table = pa.table(
        {
            "qid": ["q1", "q2", "q3"],
            "query": ["what?", "why?", "who?"],
            "retrieval_gt": pa.array(gold),
            "generation_gt": pa.array([["first", "second"], [], None], pa.list_(pa.string())),
            "extra": [1, 2, 3],
        }
    )
    pq.write_table(table, tmp_path / "qa.parquet")
    write_jsonl(tmp_path / "o.jsonl", [{"id": "q1", "retrieved": ["c", "a"]}, {"id": "q2", "retrieved": ["x"]}])
    assert run(tmp_path, tmp_path / "qa.parquet", tmp_path / "o.jsonl", "--samples-format", "autorag") == 0
    samples = [{"id": f"q{i}", "expected_output": each} for i, each in enumerate(gold, 1)]
    outputs = [{"id": "q1", "retrieved": ["c", "a"]}, {"id": "q2", "retrieved": ["x"]}]
    assert rows_of(tmp_path) == bits(evaluate(samples, outputs, metrics=METRICS).rows)
    (block,) = FORMATS["autorag"].read(str(tmp_path / "qa.parquet"), Limits(), 100, None)
    assert block.batch["answer"].to_pylist() == ["first", None, None]
    assert block.batch["input"].to_pylist() == [{"question": "what?"}, {"question": "why?"}, {"question": "who?"}]


def test_a_qa_file_given_as_plain_parquet_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"qid": ["q"], "retrieval_gt": [[["a"]]]}), tmp_path / "qa.parquet")
    write_jsonl(tmp_path / "o.jsonl", OUTPUTS)
    assert run(tmp_path, tmp_path / "qa.parquet", tmp_path / "o.jsonl") == 3
    assert "--samples-format autorag" in capsys.readouterr().err


def test_queries_of_a_map_go_wrong_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"q1": {"a": 1}, "q2": {"a": "high"}, "q3": null, "q4": {}, "q5": {"a": 1}}')
    (tmp_path / "r.json").write_text('{"q1": {"b": 1, "a": 2}, "q4": {}, "q5": {"a": NaN}, "": {"a": 1}, "q2": [1]}')
    assert run(tmp_path, tmp_path / "g.json", tmp_path / "r.json", "--max-rejects", "100%") == 0
    assert rejected_of(tmp_path) == [
        ("g.json:2", "bad_gold"),
        ("g.json:3", "bad_gold"),
        ("r.json:3", "non_finite"),
        ("r.json:4", "missing_id"),
        ("r.json:5", "bad_output"),
    ]
    statuses = {(row["sample_id"], row["status"]) for row in open_run(str(tmp_path / "runs")).per_sample().to_pylist()}
    assert statuses == {("q1", "scored"), ("q4", "no_relevant"), ("q5", "bad_output")}


@pytest.mark.parametrize(
    "text, reason",
    [
        ('{"q1": {"a": 1}, "q2": {}, "q1": {"b": 1}}', 'names "q1" twice'),
        ('{"q\\"1": {"a": 1}, "q\\"1": {}}', "twice"),
        ('{"id": "q1", "expected_output": ["a"]}', "not one of its values is an object"),
        ('{"id": "q1"}\n{"id": "q2"}\n', "JSON lines need the format jsonl"),
        ('{"q1": {"a": 1}', "expected one JSON object"),
        ("{" * 5000, "expected one JSON object"),
    ],
)
def test_a_map_that_is_none_is_broken_as_a_whole(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "g.json").write_text(text)
    with pytest.raises(BrokenInput, match=reason):
        blocks(tmp_path / "g.json", json_map.read_qrels)


def test_a_key_that_only_looks_like_a_second_one_is_fine(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('\n{ "a, \\"b\\": {" : {"}": 1} ,\n"q2":{"{": 2}}\n')
    (found,) = blocks(tmp_path / "g.json", json_map.read_qrels)
    assert found.sample_ids.to_pylist() == ['a, "b": {', "q2"]


def test_a_map_over_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_map, "LARGEST_FILE", 10)
    (tmp_path / "g.json").write_text('{"q1": {"a": 1}}')
    with pytest.raises(BrokenInput, match="MiB of JSON"):
        blocks(tmp_path / "g.json", json_map.read_qrels)


@pytest.mark.parametrize(
    "path, format",
    [
        ("a.qrels", "trec"), ("a.RUN.gz", "trec"), ("x/a.trec.zst", "trec"), ("x/qrels.dl19.txt", "trec"),
        ("qrels.test.tsv", "beir"), ("scifact/qrels/test.tsv", "beir"), ("a.json", None), ("a.json.gz", None),
        ("a.tsv", None), ("notes.txt", None), ("my-qrels.tsv", None), ("qrels/x/test.tsv", None),
        ("qa.parquet", "parquet"),
    ],
)  # fmt: skip
def test_formats_are_guessed_only_where_the_name_is_clear(path: str, format: str | None) -> None:
    assert guess(path) == format


@pytest.mark.parametrize("format", ["beir", "autorag"])
def test_formats_of_gold_are_refused_for_outputs(tmp_path: Path, format: str, capsys: Any) -> None:
    files = write_side(tmp_path, "samples", "qrels"), write_side(tmp_path, "outputs", "run")
    assert run(tmp_path, *files, "--outputs-format", format) == 2
    assert f"{format} is a format of samples" in capsys.readouterr().err


def test_a_broken_gz_fails_the_run_and_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = gzip.compress(b"".join(b"q1 Q0 d%d 1 1 t\n" % i for i in range(200_000)))
    (tmp_path / "a.run.gz").write_bytes(packed[: len(packed) // 2])
    samples = write_side(tmp_path, "samples", "qrels")
    assert run(tmp_path, samples, tmp_path / "a.run.gz") != 0
    assert "a.run.gz" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "run_date=2026-11-18" / "CURRENT").exists()


def test_validate_reads_other_peoples_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.run").write_bytes(RUN_TEXT.encode() + b"q9 Q0 d 1 1 t\nq9 Q0\n")
    samples = write_side(tmp_path, "samples", "tsv")
    flags = ["--samples", str(samples), "--outputs", str(tmp_path / "a.run"), "--max-rejects", "50%"]
    assert main(["validate", *flags]) == 0
    printed = capsys.readouterr().out
    assert "beir: 3 read, 0 rejected, 0 duplicate" in printed
    assert "trec: 4 read, 1 rejected, 0 duplicate" in printed
    assert "  bad_line: 1\n" in printed and "a.run:7: " in printed
    assert "join: 2 of 3 samples have an output" in printed


def test_a_million_lines_of_one_query_are_held_once_or_twice(tmp_path: Path) -> None:
    path = tmp_path / "one.run"
    path.write_bytes(b"".join(b"q Q0 doc%d %d %d t\n" % (i, i, 1_000_000 - i) for i in range(1_000_000)))
    tracemalloc.start()
    lines, largest = 0, 0
    for long in read_run(str(path), Limits(), 65536):
        assert isinstance(long, Long)
        lines += len(long.numbers)
        largest = max(largest, len(long.numbers))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (lines, largest) == (1_000_000, min(largest, 65536))
    assert peak < 64 * MIB  # of a file of 26 MB, read in pieces of one
    write_jsonl(tmp_path / "s.jsonl", [{"id": "q", "expected_output": ["doc999999"]}])
    assert run(tmp_path, tmp_path / "s.jsonl", path) == 0
    values = {row["metric"]: row["value"] for row in open_run(str(tmp_path / "runs")).per_sample().to_pylist()}
    assert values["mrr"] == 1e-6


def test_dirty_lines_are_accounted_for_whatever_the_blocks(tmp_path: Path) -> None:
    rng = random.Random(3)
    expected: Counter[tuple[str, str]] = Counter()
    lines: list[bytes] = []
    kinds = {b"q%d Q0 d 1": "bad_line", b"q%d Q0 d 1 nan t": "non_finite", b"q%d Q0 \xff 1 1 t": "bad_utf8"}
    good = set()
    for i in range(400):
        if rng.random() < 0.1:
            lines.append(b"")
        if rng.random() < 0.2:
            line = rng.choice(list(kinds))
            expected[f"a.run:{len(lines) + 1}", kinds[line]] += 1
            lines.append(line % rng.randrange(30))
        else:
            query = rng.randrange(30)
            good.add(query)
            lines.append(b"q%d Q0 d%d 1 %d t" % (query, i, rng.randrange(5)))
    (tmp_path / "a.run").write_bytes(b"\n".join(lines))
    (tmp_path / "a.qrels").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(30)))
    for way in WAYS:
        assert run(tmp_path, tmp_path / "a.qrels", tmp_path / "a.run", "--max-rejects", "100%", *way) == 0
        assert rejected_of(tmp_path) == sorted(expected.elements())
        ledger = ledger_of(tmp_path)["outputs"]
        assert ledger["read"] == len(good) + expected.total()
        assert (ledger["rejected"], ledger["matched"]) == (expected.total(), len(good))


def test_reading_a_format_needs_no_beam() -> None:
    code = "import sys, pipeline.formats, pipeline.fields; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent).returncode == 0
