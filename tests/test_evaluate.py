"""`evaluate`: no record makes it raise, and every record is accounted for."""

import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ContractError, UsageError
from pipeline.evaluate import Evaluation, evaluate
from transforms.dialects import DIALECTS
from transforms.ledger import turned_away
from transforms.records import PER_SAMPLE, REJECTED, SUMMARY

from .datasets import random_outputs, random_samples

SAMPLES = [{"id": "q", "expected_output": ["doc-3", "doc-9"]}]
OUTPUTS = [{"id": "q", "actual_output": ["doc-7", "doc-3", "doc-1", "doc-9", "doc-2"]}]


def values(evaluation: Evaluation) -> dict[str, Any]:
    return {f"{row['sample_id']} {row['metric']}": row["value"] for row in evaluation.rows.to_pylist()}


def statuses(evaluation: Evaluation) -> dict[str, str]:
    return {row["sample_id"]: row["status"] for row in evaluation.rows.to_pylist()}


def accounted(evaluation: Evaluation, samples: int, outputs: int) -> None:
    """Every promise that holds for any input whatever."""
    ledger = evaluation.ledger
    assert ledger["balanced"]
    for side, n in (("samples", samples), ("outputs", outputs)):
        terms = dict(ledger[side])
        assert terms.pop("read") == n
        assert sum(terms.values()) == n
        named = [row["location"] for row in evaluation.rejected.to_pylist() if row["source"] == side]
        assert len(set(named)) == len(named) == terms["rejected"]
        assert set(named) <= {f"{side}:{i}" for i in range(1, n + 1)}
    assert evaluation.rows.schema.equals(PER_SAMPLE)
    assert evaluation.summary.schema.equals(SUMMARY)
    assert evaluation.rejected.schema.equals(REJECTED)
    for table in (evaluation.rows, evaluation.summary, evaluation.rejected):
        table.validate(full=True)
    assert not any(value != value for value in evaluation.rows["value"].to_pylist())


def test_the_worked_example_gives_the_documented_numbers() -> None:
    evaluation = evaluate(SAMPLES, OUTPUTS, metrics="hit@5,recall@5,mrr,ndcg@5")
    assert values(evaluation) == {"q hit@5": 1.0, "q recall@5": 1.0, "q mrr": 0.5, "q ndcg@5": 0.6509209298071326}
    accounted(evaluation, 1, 1)


def test_nothing_at_all_is_an_evaluation_too() -> None:
    evaluation = evaluate([], [])
    accounted(evaluation, 0, 0)
    assert evaluation.rows.num_rows == evaluation.rejected.num_rows == 0
    assert evaluation.summary["expected"].to_pylist() == [0] * 4


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.list_view(pa.string_view()), pa.null()], ids=str)
def test_tables_without_rows_are_evaluated(kind: pa.DataType) -> None:
    empty = pa.array([], kind)
    tables = [pa.table({"id": pa.array([], pa.string()), name: empty}) for name in ("expected_output", "retrieved")]
    accounted(evaluate(*tables, slice_by="lang"), 0, 0)
    accounted(evaluate(SAMPLES, tables[1]), 1, 0)
    accounted(evaluate(tables[0], OUTPUTS), 0, 1)
    no_chunks = pa.table({"id": pa.chunked_array([], pa.string()), "retrieved": pa.chunked_array([], kind)})
    accounted(evaluate(SAMPLES, no_chunks), 1, 0)


def test_each_kind_of_missing_output_is_told_apart_and_counted() -> None:
    samples = [{"id": each, "expected_output": ["a"]} for each in "pqrst"]
    outputs: list[dict[str, Any]] = [
        {"id": "p", "retrieved": ["a"]},
        {"id": "q", "retrieved": ["a"], "error": "timeout"},
        {"id": "r", "retrieved": ["a"]},
        {"id": "r", "retrieved": ["b"]},
        {"id": "s", "retrieved": [{"id": "a", "score": float("nan")}]},
    ]
    evaluation = evaluate(samples, outputs, metrics="recall")
    accounted(evaluation, 5, 5)
    assert statuses(evaluation) == {
        "p": "scored", "q": "error", "r": "conflict", "s": "bad_output", "t": "missing_output",
    }  # fmt: skip
    summary = evaluation.summary.to_pylist()[0]
    assert (summary["mean"], summary["count"], summary["missing"], summary["answered"]) == (0.2, 5, 4, 0.2)
    codes = Counter((row["location"], row["code"]) for row in evaluation.rejected.to_pylist())
    assert codes == {("outputs:3", "conflict"): 1, ("outputs:4", "conflict"): 1, ("outputs:5", "non_finite"): 1}


def test_missing_can_be_skipped_or_refused() -> None:
    samples = [*SAMPLES, {"id": "r", "expected_output": ["a"]}]
    assert evaluate(samples, OUTPUTS, metrics="recall", missing="skip").summary["count"].to_pylist() == [1]
    with pytest.raises(ContractError, match="1 sample"):
        evaluate(samples, OUTPUTS, missing="fail")
    assert evaluate(SAMPLES, OUTPUTS, missing="fail").ledger["balanced"]


@pytest.mark.parametrize(
    "asked",
    [{"metrics": "recal@5"}, {"metrics": "recall@0"}, {"dialect": "standart"}, {"k": 0}, {"missing": "no"}],
    ids=str,
)
def test_what_was_asked_wrongly_is_a_usage_error(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        evaluate(SAMPLES, OUTPUTS, **asked)


@pytest.mark.parametrize(
    "table", [pa.table({}), pa.table({"key": ["q"]}), pa.table({"id": [1.5], "retrieved": [["a"]]})]
)
def test_a_table_without_the_columns_it_needs_is_a_contract_error(table: pa.Table) -> None:
    with pytest.raises(ContractError, match="outputs: expected"):
        evaluate(SAMPLES, table)


def test_k_comes_from_the_sample_then_from_the_call() -> None:
    samples = [{**SAMPLES[0], "metadata": {"k": 2}}, {"id": "r", "expected_output": ["doc-9"]}]
    outputs = [*OUTPUTS, {"id": "r", "retrieved": ["doc-1", "doc-2", "doc-3", "doc-9"]}]
    evaluation = evaluate(samples, outputs, metrics="recall@k", k=3)
    assert values(evaluation) == {"q recall@k": 0.5, "r recall@k": 0.0}
    assert evaluation.rows["k"].to_pylist() == [2, 3]


def as_table(records: list[dict[str, Any]]) -> pa.Table:
    """Every body as JSON text, so that one column takes all shapes."""
    fields = sorted({field for record in records for field in record})
    columns: dict[str, list[Any]] = {}
    for field in fields:
        texts = [record.get(field) for record in records]
        if field not in ("id", "error"):
            texts = [
                None if value is None else value if isinstance(value, str) else json.dumps(value) for value in texts
            ]
        columns[field] = texts
    return pa.table(columns)


def test_tables_whole_or_in_chunks_and_lists_give_the_same_rows() -> None:
    rng = random.Random(13)
    samples = random_samples(rng, 300)
    outputs = random_outputs(rng, samples)
    asked: dict[str, Any] = {"metrics": "recall@k,mrr,ndcg@5", "slice_by": ["lang", "tags"]}
    expected = evaluate(samples, outputs, **asked)
    accounted(expected, len(samples), len(outputs))
    for chunk in (10_000, 7):
        tables = []
        for records in (samples, outputs):
            table = as_table(records)
            tables.append(pa.concat_tables([table.slice(at, chunk) for at in range(0, len(table), chunk)]))
        found = evaluate(*tables, **asked)
        assert found.rows.equals(expected.rows)
        assert found.summary.equals(expected.summary)
        assert found.ledger == expected.ledger
    batches = [as_table(records).combine_chunks().to_batches()[0] for records in (samples, outputs)]
    assert evaluate(*batches, **asked).rows.equals(expected.rows)


def test_chunks_may_have_dictionaries_of_their_own() -> None:
    kind = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    chunks = [pa.array([["doc-3"]], kind), pa.array([["doc-9", "doc-3"]], kind)]
    outputs = pa.table({"id": ["q", "r"], "retrieved": pa.chunked_array(chunks)})
    samples = [*SAMPLES, {"id": "r", "expected_output": ["doc-3"]}]
    assert values(evaluate(samples, outputs, metrics="mrr")) == {"q mrr": 1.0, "r mrr": 0.5}


def test_rejects_of_a_chunked_table_are_named_by_their_row() -> None:
    table = pa.table({"id": pa.chunked_array([["a", None], ["b", "", "c"]]), "retrieved": [["x"]] * 5})
    evaluation = evaluate([], table)
    accounted(evaluation, 0, 5)
    assert evaluation.rejected["location"].to_pylist() == ["outputs:2", "outputs:4"]


def test_numpy_values_are_as_good_as_python_ones() -> None:
    samples = [{"id": np.str_("q"), "expected_output": {np.str_("doc-3"): np.float32(1), "doc-9": np.int64(1)}}]
    samples[0]["metadata"] = {"k": np.int64(5)}
    outputs = [{"id": "q", "retrieved": np.array(OUTPUTS[0]["actual_output"]), "error": np.False_}]
    assert values(evaluate(samples, outputs, metrics="ndcg@k")) == {"q ndcg@k": 0.6509209298071326}
    numbers = evaluate(
        [{"id": np.int64(7), "expected_output": [3]}], [{"id": "7", "retrieved": np.array([1, 3])}], "mrr"
    )
    assert values(numbers) == {"7 mrr": 0.5}


def test_values_that_nobody_expects_cost_their_record_only() -> None:
    knot: list[Any] = []
    knot.append(knot)
    tower: Any = "x"
    for _ in range(100_000):
        tower = [tower]
    odd = [
        10**5000,
        knot,
        tower,
        {"x": 10**5000},
        [10**5000],
        "\ud800",
        object(),
        {1, 2},
        np.zeros((2, 2)),
        np.array(3),
    ]
    samples = [{"id": f"q-{i}", "expected_output": each} for i, each in enumerate(odd)]
    samples += [{"id": f"r-{i}", "expected_output": ["a"], "input": each} for i, each in enumerate(odd)]
    samples += [{"id": f"s-{i}", "expected_output": ["a"], "metadata": {"k": each}} for i, each in enumerate(odd)]
    outputs = [{"id": f"r-{i}", "retrieved": each} for i, each in enumerate(odd)]
    outputs += [{"id": f"s-{i}", "retrieved": ["a"], "error": each} for i, each in enumerate(odd)]
    outputs += [{"id": f"s-{i}", "retrieved": ["a", {"id": "b", "score": each}]} for i, each in enumerate(odd)]
    evaluation = evaluate([*samples, *odd], [*outputs, *odd], slice_by="k")
    accounted(evaluation, len(samples) + len(odd), len(outputs) + len(odd))


def test_records_may_come_from_a_generator() -> None:
    assert evaluate(iter(SAMPLES), (output for output in OUTPUTS)).ledger["balanced"]


ids = st.sampled_from(["a", "b", "c", "d", 1, "1"]) | st.sampled_from(
    [None, "", " ", True, 1.5, "x\0", "\ud800", b"a", []]
)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["x", "y", 10**600])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "id", "retrieved"]), inner, max_size=3)
    ),
    max_leaves=6,
)
lists = st.lists(st.sampled_from(["x", "y", "z", "", 3]), max_size=4)
graded = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(-1, 3), max_size=3)
texts = lists.map(json.dumps) | anything.map(lambda value: ascii(value)[:40])
good_samples = st.fixed_dictionaries(
    {"id": ids, "expected_output": lists | graded | st.lists(lists, max_size=3) | texts},
    optional={"metadata": st.fixed_dictionaries({}, optional={"k": anything, "lang": anything}) | anything},
)
good_outputs = st.fixed_dictionaries(
    {"id": ids, "actual_output": lists | lists.map(lambda items: {"retrieved": items}) | texts | anything},
    optional={"error": anything, "answer": anything, "retrieved": lists | anything},
)


@settings(max_examples=300)
@given(
    st.lists(
        good_samples | st.dictionaries(st.sampled_from(["id", "expected_output", "metadata"]), anything) | anything
    ),
    st.lists(good_outputs | st.dictionaries(st.sampled_from(["id", "actual_output", "error"]), anything) | anything),
    st.sampled_from(["standard", "trec"]),
)
def test_whatever_comes_is_accounted_for(samples: list[Any], outputs: list[Any], dialect: str) -> None:
    evaluation = evaluate(samples, outputs, metrics="recall@k,mrr", slice_by=["lang", "k"], dialect=dialect)
    accounted(evaluation, len(samples), len(outputs))


@settings(max_examples=150)
@given(st.data())
def test_whatever_table_comes_is_accounted_for(data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 6))

    def column(values: st.SearchStrategy[Any], *kinds: pa.DataType) -> pa.Array:
        return pa.array(data.draw(st.lists(values, min_size=n, max_size=n)), data.draw(st.sampled_from(kinds)))

    def texts(*more: str) -> st.SearchStrategy[str | None]:
        return st.sampled_from([None, "", "a", "b", "é", *more])

    words = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
    lists = st.none() | st.lists(texts("x"), max_size=3)
    kinds = [listed(word) for word in words for listed in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)]
    jsons = texts('["a"]', '{"a": 2}', '{"retrieved": ["a", "b"]}', "[NaN]", "[", '{"k": 2, "lang": "de"}')
    samples = {"id": column(texts("c"), *words)}
    samples["expected_output"] = data.draw(st.sampled_from([column(lists, *kinds), column(jsons, *words)]))
    samples["metadata"] = data.draw(
        st.sampled_from([column(jsons, *words), pa.nulls(n), pa.array([{"k": 1, "lang": "de"}] * n, META)])
    )
    outputs = {"id": column(texts("c"), *words)}
    outputs["actual_output"] = data.draw(st.sampled_from([column(lists, *kinds), column(jsons, *words)]))
    outputs["error"] = data.draw(
        st.sampled_from([column(texts(), *words), column(st.booleans(), pa.bool_()), pa.nulls(n)])
    )
    evaluation = evaluate(pa.table(samples), pa.table(outputs), metrics="recall@k,mrr", slice_by="lang")
    accounted(evaluation, n, n)


META = pa.struct([("k", pa.int8()), ("lang", pa.string_view())])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_flawed_record_that_conflicts_too_is_turned_away_once(dialect: str) -> None:
    samples = [
        {"id": "a", "expected_output": 7},
        {"id": "a", "expected_output": 8},
        {"id": "b", "expected_output": ["d"]},
    ]
    outputs = [{"id": "b", "retrieved": 1}, {"id": "b", "retrieved": ["d"]}, {"id": "b", "retrieved": 1}]
    found = evaluate(samples, outputs, metrics="recall" if dialect in ("remem", "autorag") else "mrr", dialect=dialect)
    assert sorted(found.rejected["location"].to_pylist()) == [
        *(f"outputs:{row}" for row in (1, 2, 3)),
        *(f"samples:{row}" for row in (1, 2)),
    ]
    assert turned_away(found.ledger, "samples") == {"bad_gold": 2}
    assert turned_away(found.ledger, "outputs") == {"bad_output": 2, "conflict": 1}
    assert found.ledger["balanced"] and found.ledger["samples"]["missing"] == 1
