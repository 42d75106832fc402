"""pytrec_eval as its users call it: dicts of dicts, one evaluate, all the metrics in one pass of C."""

import sys
from collections.abc import Iterator
from pathlib import Path

from contest import Case

THEIRS = {"hit": "success", "recall": "recall", "precision": "P", "ndcg": "ndcg_cut", "mrr": "recip_rank"}


def command(case: Case, out: Path) -> list[str]:
    return script("whole", case, out)


def script(way: str, case: Case, out: Path) -> list[str]:
    return [sys.executable, __file__, way, str(case.samples), str(case.outputs), str(out), *case.metrics]


def tables(out: Path) -> list[Path]:
    return [out / "per_sample.parquet"]


def main(way: str, samples: str, outputs: str, out: str, *metrics: str) -> None:
    import gc

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pytrec_eval

    gc.disable()  # millions of live strings and no cycles: each walk over them would be time for nothing

    theirs = {metric: measure(metric) for metric in metrics}
    qrels = {sample: dict.fromkeys(relevant, 1) for sample, relevant in records(samples, "expected_output")}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(theirs.values()))
    scores: dict[str, dict[str, float]] = {}
    for run in runs(outputs, at_once=10_000 if way == "batched" else sys.maxsize):
        scores.update(evaluator.evaluate(run))

    schema = pa.schema(
        [("sample_id", pa.string()), ("metric", pa.string()), ("k", pa.int32()), ("value", pa.float64())]
    )
    ids = pa.array(scores)
    with pq.ParquetWriter(Path(out) / "per_sample.parquet", schema) as file:
        for metric, name in theirs.items():
            values = np.fromiter((row[name] for row in scores.values()), np.float64, len(scores))
            k = metric.partition("@")[2]
            cutoff = pa.scalar(int(k) if k else None, pa.int32())
            columns = [ids, pa.repeat(metric, len(ids)), pa.repeat(cutoff, len(ids)), pa.array(values)]
            file.write_table(pa.table(columns, schema=schema))


def runs(outputs: str, at_once: int) -> Iterator[dict[str, dict[str, float]]]:
    """The rankings as pytrec_eval wants them, a score falling with the rank; `at_once` samples in each dict."""
    run: dict[str, dict[str, float]] = {}
    for sample, ranked in records(outputs, "retrieved"):
        run[sample] = dict(zip(ranked, map(float, range(len(ranked), 0, -1)), strict=True))
        if len(run) == at_once:
            yield run
            run = {}
    if run:
        yield run


def records(path: str, column: str) -> Iterator[tuple[str, list[str]]]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(10_000, columns=["id", column]):
        yield from zip(batch["id"].to_pylist(), batch[column].to_pylist(), strict=True)


def measure(metric: str) -> str:
    """trec_eval's spelling of a metric: `recall@5` → `recall_5`."""
    name, _, k = metric.partition("@")
    return f"{THEIRS[name]}_{k}" if k else THEIRS[name]


if __name__ == "__main__":
    main(*sys.argv[1:])
