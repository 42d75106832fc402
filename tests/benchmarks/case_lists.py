"""Case `lists`: every sample has a list of relevant ids, every output a ranked list of ids, both in Parquet.

All sizes are flags. Ids are strings out of a vocabulary; about three of ten relevant documents are found, at random
ranks; no list names a document twice; outputs come in another order than their samples.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from contest import Case

CUTOFFS = (1, 5, 10, 100)
METRICS = (*(f"{name}@{k}" for name in ("hit", "recall", "precision", "ndcg") for k in CUTOFFS), "mrr")

SEED = 20261118
GENERATOR = 1  # raise it when the same flags would give other data
FOUND = 0.3
ROWS_AT_ONCE = 25_000

SAMPLES = pa.schema([("id", pa.string()), ("expected_output", pa.list_(pa.string()))])
OUTPUTS = pa.schema([("id", pa.string()), ("retrieved", pa.list_(pa.string()))])

Codes = npt.NDArray[np.int32]


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--retrieved", type=int, default=100, help="documents in each output's list")
    parser.add_argument("--relevant", type=int, default=10, help="relevant documents of each sample")
    parser.add_argument("--vocabulary", type=int, default=1_000_000, help="distinct document ids to draw from")


def prepare(flags: argparse.Namespace, workdir: Path) -> Case:
    """The case's files, made unless the same flags made them before.

    The folder's name says all that the data follows from, and it appears by a rename, so it is complete or absent.
    """
    sizes = (flags.samples, flags.retrieved, flags.relevant, flags.vocabulary)
    if flags.vocabulary < 2 * (flags.retrieved + flags.relevant):
        raise SystemExit(f"--vocabulary {flags.vocabulary} is too small for lists without repeats")
    folder = workdir / "data" / ("lists-" + "x".join(map(str, sizes)) + f"-seed{SEED}-v{GENERATOR}")
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        generate(unfinished, *sizes)
        unfinished.rename(folder)
    return Case(folder / "samples.parquet", folder / "outputs.parquet", METRICS)


def generate(folder: Path, samples: int, retrieved: int, relevant: int, vocabulary: int) -> None:
    rng = np.random.default_rng(SEED)
    documents = pa.array([f"doc-{number:06d}" for number in range(vocabulary)])
    with (
        pq.ParquetWriter(folder / "samples.parquet", SAMPLES) as samples_file,
        pq.ParquetWriter(folder / "outputs.parquet", OUTPUTS) as outputs_file,
    ):
        for first in range(0, samples, ROWS_AT_ONCE):
            rows = min(ROWS_AT_ONCE, samples - first)
            ids = pa.array([f"sample-{number:07d}" for number in range(first, first + rows)])
            gold, ranked = rankings(rng, rows, retrieved, relevant, vocabulary)
            order = rng.permutation(rows)
            samples_file.write_table(pa.table([ids, lists(documents, gold)], schema=SAMPLES))
            outputs_file.write_table(pa.table([ids.take(order), lists(documents, ranked[order])], schema=OUTPUTS))


def rankings(
    rng: np.random.Generator, rows: int, retrieved: int, relevant: int, vocabulary: int
) -> tuple[Codes, Codes]:
    """Gold and ranking of each sample: unrelated documents first, then some of the gold put over them."""
    codes = distinct(rng, rows, relevant + retrieved, vocabulary)
    gold, ranked = codes[:, :relevant], codes[:, relevant:].copy()
    depth = min(relevant, retrieved)
    ranks = np.argsort(rng.random((rows, retrieved)), axis=1)[:, :depth]
    row, nth = np.nonzero(rng.random((rows, depth)) < FOUND)
    ranked[row, ranks[row, nth]] = gold[row, nth]
    return gold, ranked


def distinct(rng: np.random.Generator, rows: int, width: int, vocabulary: int) -> Codes:
    """Random codes that differ within a row: draw, then draw again only what repeats."""
    codes = rng.integers(vocabulary, size=(rows, width), dtype=np.int32)
    while True:
        order = np.argsort(codes, axis=1)
        ascending = np.take_along_axis(codes, order, axis=1)
        row, place = np.nonzero(ascending[:, 1:] == ascending[:, :-1])
        if not len(row):
            return codes
        codes[row, order[row, place + 1]] = rng.integers(vocabulary, size=len(row), dtype=np.int32)


def lists(documents: pa.StringArray, codes: Codes) -> pa.ListArray:
    offsets = np.arange(len(codes) + 1, dtype=np.int32) * codes.shape[1]
    return pa.ListArray.from_arrays(offsets, documents.take(pa.array(codes.ravel())))
