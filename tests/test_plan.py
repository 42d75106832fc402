import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.plan import DEFAULT_METRICS, MaxRejects, Plan, load_plan, make_plan
from pipeline.redact import redact, redact_args
from transforms.metrics.catalog import parse_list

NEEDED = {"samples": ["s.jsonl"], "outputs": ["o.jsonl"], "out": "runs"}


def plan_file(folder: Path, text: str) -> str:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def complaint(flags: dict[str, Any], plan: dict[str, Any] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        make_plan({**NEEDED, **flags}, plan or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_those_of_the_design() -> None:
    plan = make_plan(NEEDED, {})
    assert plan.metrics == parse_list(DEFAULT_METRICS)
    assert (plan.k, plan.dialect, plan.missing, plan.ties, plan.block_rows) == (5, "standard", "zero", "trec", 65536)
    assert (plan.buckets, plan.replace, plan.slice_by, plan.samples_format) == (None, False, (), None)
    assert plan.max_rejects == MaxRejects(share=0.01, count=1000)


def test_flags_beat_the_plan_file_and_the_plan_file_beats_defaults() -> None:
    plan = make_plan({**NEEDED, "k": "3", "metrics": None}, {"k": 7, "metrics": ["mrr"], "block_rows": 9})
    assert plan.k == 3
    assert plan.metrics == parse_list("mrr")
    assert plan.block_rows == 9


def test_run_date_left_out_is_todays_utc_date() -> None:
    before = datetime.datetime.now(datetime.UTC).date().isoformat()
    filled = make_plan(NEEDED, {}).run_date
    assert before <= filled <= datetime.datetime.now(datetime.UTC).date().isoformat()


@pytest.mark.parametrize("text", ["2026-02-30", "20260218", "2026-W07-1", "2026-2-3", "tomorrow", "", "2026-02-03\n"])
def test_a_run_date_that_is_none_is_refused(text: str) -> None:
    assert "not a date" in complaint({"run_date": text})


@pytest.mark.parametrize("value", ["0", "-1", "5.0", "five", "1_000", " 5", "٥", "", "9" * 40])
def test_a_count_is_a_whole_number_above_zero(value: str) -> None:
    for key in ("k", "buckets", "block_rows"):
        message = complaint({key: value})
        assert message.startswith("--" + key.replace("_", "-")) and "whole number above 0" in message


@pytest.mark.parametrize(
    ("text", "share", "count"),
    [("1%", 0.01, None), ("0.5%", 0.005, None), ("29 %", 0.29, None), ("100", None, 100), ("0", None, 0), (7, None, 7)],
)
def test_max_rejects_is_a_share_or_a_count_and_replaces_both_defaults(
    text: Any, share: float | None, count: int | None
) -> None:
    assert make_plan({**NEEDED, "max_rejects": text}, {}).max_rejects == MaxRejects(share, count)


@pytest.mark.parametrize("text", ["101%", "1.5", "-1", "%", "a%", "1e3", "nan%", True])
def test_other_max_rejects_are_refused(text: Any) -> None:
    assert "expected a share such as 1%" in complaint({"max_rejects": text})


def test_the_reject_limit_is_the_lesser_of_both_and_exact() -> None:
    assert MaxRejects().limit(612) == 6
    assert MaxRejects().limit(10_000_000) == 1000
    assert MaxRejects(share=0.29, count=None).limit(100) == 29  # 0.29 * 100 is 28.999999999999996
    assert MaxRejects(share=None, count=3).limit(1) == 3
    assert MaxRejects(share=0.0, count=None).limit(10**9) == 0


def test_patterns_may_be_repeated_and_stay_whole() -> None:
    plan = make_plan({**NEEDED, "samples": ["a*.jsonl", "b.parquet"]}, {})
    assert plan.samples == ("a*.jsonl", "b.parquet")
    assert "one pattern each" in complaint({"samples": ["a.jsonl,b.jsonl"]})
    assert "empty pattern" in complaint({"outputs": [" "]})


@pytest.mark.parametrize("key", ["samples", "outputs", "out"])
def test_what_is_needed_and_missing_is_named(key: str) -> None:
    flags = {name: value for name, value in NEEDED.items() if name != key}
    with pytest.raises(UsageError, match=f"--{key} is needed"):
        make_plan(flags, {})


def test_validate_needs_no_output_folder() -> None:
    assert make_plan({**NEEDED, "out": None}, {}, require=("samples", "outputs")).out == ""


@pytest.mark.parametrize(
    ("flags", "near"),
    [
        ({"metrics": "ndgc@5"}, "ndcg"),
        ({"dialect": "standart"}, "standard"),
        ({"missing": "zeroo"}, "zero"),
        ({"ties": "trek"}, "trec"),
        ({"samples_format": "jsnl"}, "jsonl"),
        ({"outputs_format": "Parquett"}, "parquet"),
    ],
)
def test_an_unknown_word_is_answered_with_the_nearest(flags: dict[str, str], near: str) -> None:
    message = complaint(flags)
    assert "did you mean" in message and near in message


def test_slice_fields_lose_repeats_and_blanks_but_not_their_order() -> None:
    assert make_plan({**NEEDED, "slice_by": "lang, tags,lang"}, {}).slice_by == ("lang", "tags")
    assert "empty field name" in complaint({"slice_by": "lang,,tags"})


def test_a_whole_plan_file_is_read(tmp_path: Path) -> None:
    path = plan_file(
        tmp_path,
        """
        samples = ["s1.jsonl", "s2.jsonl"]
        outputs = "o.parquet"
        out = "runs"
        metrics = ["hit@5", "ndcg(gain=exp2)@10"]
        slice-by = "lang,tags"
        run_date = 2026-11-18
        replace = true
        max-rejects = "2%"
        k = 3
        [limits]
        line-bytes = 1024
        depth = 8
        """,
    )
    plan = make_plan({}, load_plan(path))
    assert plan.samples == ("s1.jsonl", "s2.jsonl")
    assert [str(metric) for metric in plan.metrics] == ["hit@5", "ndcg(gain=exp2)@10"]
    assert (plan.slice_by, plan.run_date, plan.replace, plan.k) == (("lang", "tags"), "2026-11-18", True, 3)
    assert (plan.limits.line_bytes, plan.limits.depth, plan.limits.list_items) == (1024, 8, 2_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[limits]\nline_byte = 1", "plan.toml: limits.line_byte: unknown key; did you mean line_bytes?"),
        ("metric = 'mrr'", "plan.toml: metric: unknown key; did you mean metrics?"),
        ("k = '5'", "plan.toml: k: expected a whole number, found a text"),
        ("k = true", "plan.toml: k: expected a whole number, found true or false"),
        ("k = 0", "plan.toml: k '0': expected a whole number above 0"),
        ("replace = 1", "plan.toml: replace: expected true or false, found a whole number"),
        ("limits = 3", "plan.toml: limits: expected a table, found a whole number"),
        ("[limits]\ndepth = 1.5", "plan.toml: limits.depth: expected a whole number, found a number"),
        ("samples = [1]", "plan.toml: samples: expected texts only"),
        ("run_date = 2026-11-18T10:00:00", "plan.toml: run_date: expected a text or a date, found a date with a time"),
        ("run_date = '2026-02-30'", "plan.toml: run_date '2026-02-30': not a date"),
        ("slice_by = 'a'\nslice-by = 'b'", "plan.toml: slice-by: given twice"),
        ("k = 1\nk = 2", "plan.toml: not a TOML file: Cannot overwrite a value"),
        ("k = ", "plan.toml: not a TOML file"),
        ("metrics = 'ndgc'", "plan.toml: metrics: unknown metric 'ndgc'"),
        ("[[samples]]\na = 1", "plan.toml: samples: expected texts only"),
    ],
)
def test_a_wrong_plan_file_is_answered_with_path_key_and_reason(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_plan(plan_file(tmp_path, text))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_file_that_is_not_there_or_no_text_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_plan(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="cannot be read"):
        load_plan(str(tmp_path))
    (tmp_path / "latin.toml").write_bytes(b"out = '\xff'")
    with pytest.raises(UsageError, match="not a TOML file"):
        load_plan(str(tmp_path / "latin.toml"))


def test_the_description_is_json_and_holds_no_credentials() -> None:
    flags = {
        "samples": ["https://user:hunter2@host/s.jsonl?token=tok123&v=2"],
        "outputs": ["s3://bucket/o.jsonl?X-Amz-Signature=abc123"],
        "out": "gs://bucket/runs",
    }
    text = json.dumps(make_plan(flags, {}).describe())
    assert not re.search("hunter2|tok123|abc123", text)
    assert "v=2" in text and "gs://bucket/runs" in text and '"metrics": ["hit@k"' in text


def test_every_field_of_the_plan_is_described() -> None:
    plan = make_plan(NEEDED, {})
    assert set(plan.describe()) == set(Plan.__dataclass_fields__)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://u:p@h/x", "https://***@h/x"),
        ("https://a:b@c@h/x", "https://***@h/x"),
        ("--s3_secret_access_key=zz --region=eu", "--s3_secret_access_key=*** --region=eu"),
        ("--s3_secret_access_key zz --region eu", "--s3_secret_access_key *** --region eu"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+=", "AWS_SECRET_ACCESS_KEY=***"),
        ('{"password": "a b", "k": 1}', '{"password": "***", "k": 1}'),
        ("Authorization: Bearer abcdefghi", "Authorization: Bearer ***"),
        ("monkey=1 tokenizer=bert gs://bucket/a@b", "monkey=1 tokenizer=bert gs://bucket/a@b"),
    ],
)
def test_redacting_hides_the_secret_and_only_it(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown


def test_a_secret_in_an_argument_of_its_own_is_hidden() -> None:
    args = ["--s3_secret_access_key", "zz", "--region", "eu", "--token=x"]
    assert redact_args(args) == ["--s3_secret_access_key", "***", "--region", "eu", "--token=***"]


def test_a_cutoff_past_any_list_is_refused() -> None:
    with pytest.raises(UsageError, match="deeper than any list"):
        make_plan({"samples": ["a"], "outputs": ["b"], "out": "c", "k": 2**31 - 1}, {})
