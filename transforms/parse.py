"""Raw records to blocks: ids checked, bodies read, content digested, only what the plan needs kept.

A record without a usable id leaves here as rejected. A record with a good id and a bad body is counted as rejected too,
but its id goes on with a defect, because the join has to know that this sample's output, or gold, was there. (A dialect
may want rows for it: then it is counted as refused, and goes on to be joined like any other.)
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import as_strings, is_texts, list_column
from .decode import Decoded, Flaw, OutputRecord, SampleRecord, canonical_json, decode_lines, decode_rows
from .dialects import DIALECTS, STANDARD
from .digest import digest_columns
from .gold import Gold, Kind, read_gold, read_gold_column
from .ids import Ids, read_ids
from .limits import Limits
from .metadata import Metadata, read_metadata, read_metadata_column
from .records import (
    DEFECTS,
    REJECTED,
    Columns,
    Lines,
    Refused,
    Rows,
    output_block,
    place,
    sample_block,
)
from .retrieved import ASIDE, Retrieved, rank, read_retrieved, read_retrieved_column
from .sieve import Sieve
from .tables import LISTS, error_column, read_table

_PREVIEW = 200


@dataclass(frozen=True)
class Source:
    """One input file: its side, its number in the job, and its path as people know it."""

    side: str
    number: int
    path: str


@dataclass(frozen=True)
class Wants:
    """What the asked metrics read, and so what goes on: slice fields, answers and texts, and how deep lists go."""

    slice_by: tuple[str, ...] = ()
    texts: bool = False
    depth: int | None = None
    dialect: str = STANDARD.name
    """Whose rules say what a flaw is, what becomes of it, and how repeats rank."""
    limits: Limits = Limits()
    """What one record may hold, whatever is asked."""


@dataclass
class Parsed:
    """One raw block, parsed: the records that go on, the rows for `rejected`, and the terms for the ledger."""

    block: pa.RecordBatch | None
    rejected: pa.RecordBatch | None
    terms: Counter[str]


Raw = Lines | Rows | Columns | Refused


def parse_samples(raw: Raw, source: Source, wants: Wants) -> Parsed:
    """Samples of one raw block."""
    if isinstance(raw, Refused):
        return refuse([raw], source)
    if isinstance(raw, Columns):
        return _sample_columns(raw, source, wants)
    decoded = _decode(raw, SampleRecord, wants.limits)
    golds = [None if i in decoded.flaws else r.expected_output for i, r in enumerate(decoded.records)]
    rest = [canonical_json([r.input, r.metadata, r.answer]) for r in decoded.records]
    return _assemble_samples(
        ids=read_ids([record.id for record in decoded.records]),
        gold=read_gold(golds, wants.limits),
        answers=pa.array([_string(record.answer) for record in decoded.records], pa.string()),
        metadata=read_metadata([record.metadata for record in decoded.records], wants.slice_by),
        rest=[pa.array(rest, pa.string())],
        rows=_Provenance(source, decoded.numbers, lambda i: decoded.raw[i], decoded.flaws),
        wants=wants,
    )


def parse_outputs(raw: Raw, source: Source, wants: Wants, sieve: Sieve | None = None) -> Parsed:
    """Outputs of one raw block; with a sieve, only the entries that may be judged go on."""
    if isinstance(raw, Refused):
        return refuse([raw], source)
    if isinstance(raw, Columns):
        return _output_columns(raw, source, wants, sieve)
    decoded = _decode(raw, OutputRecord, wants.limits)
    retrieved = read_retrieved(decoded.records, decoded.flaws, wants.limits)
    retrieved.note_scores()
    return _assemble_outputs(
        ids=read_ids([record.id for record in decoded.records]),
        retrieved=retrieved,
        rows=_Provenance(source, decoded.numbers, lambda i: decoded.raw[i], decoded.flaws),
        wants=wants,
        sieve=sieve,
    )


@dataclass
class _Provenance:
    """Where the rows of a block came from, and what is known to be wrong with them."""

    source: Source
    numbers: list[int] | range
    raw: Callable[[int], Any]
    flaws: dict[int, Flaw]


def _decode(raw: Lines | Rows, record_type: type[Any], limits: Limits) -> Decoded:
    return decode_lines(raw, record_type, limits) if isinstance(raw, Lines) else decode_rows(raw, record_type, limits)


def _sample_columns(raw: Columns, source: Source, wants: Wants) -> Parsed:
    table = read_table(raw, source.side, source.path, SampleRecord, wants.limits)
    columns, n = table.columns, raw.batch.num_rows
    answer = columns["answer"]
    return _assemble_samples(
        ids=table.ids(),
        gold=read_gold_column(columns["expected_output"], wants.limits),
        answers=as_strings(answer) if is_texts(answer.type) else pa.nulls(n, pa.string()),
        metadata=read_metadata_column(columns["metadata"], wants.slice_by),
        rest=[columns["input"], columns["metadata"], answer],
        rows=_Provenance(source, table.numbers, table.row, table.flaws),
        wants=wants,
    )


def _output_columns(raw: Columns, source: Source, wants: Wants, sieve: Sieve | None) -> Parsed:
    table = read_table(raw, source.side, source.path, OutputRecord, wants.limits)
    columns = table.columns
    lists = [columns[name] for name in LISTS if not pa.types.is_null(columns[name].type)]
    retrieved = None
    if len(lists) == 1:
        aside = {name: columns[name] for name in ASIDE}
        body = lists[0]
        within: dict[str, pa.Array] = {}
        if pa.types.is_struct(body.type):
            within = {each.name: pc.struct_field(body, each.name) for each in body.type}
            body = within.get("retrieved", body)
        # What is said twice, and an error within, is sorted out record by record.
        if not any(name in within and (name == "error" or name in raw.batch.schema.names) for name in ASIDE):
            aside |= {name: column for name, column in within.items() if name in aside}
            retrieved = read_retrieved_column(body, error_column(columns["error"]), list(aside.values()))
    if retrieved is None:
        records = pa.RecordBatch.from_arrays(list(columns.values()), list(columns)).to_pylist()
        decoded = decode_rows(Rows(list(table.numbers), records), OutputRecord, wants.limits)
        table.flaws.update(decoded.flaws)
        retrieved = read_retrieved(decoded.records, decoded.flaws, wants.limits)
    if not raw.ordered:
        retrieved.note_scores()
    rows = _Provenance(source, table.numbers, table.row, table.flaws)
    return _assemble_outputs(table.ids(), retrieved, rows, wants, sieve)


def _assemble_samples(
    ids: Ids,
    gold: Gold,
    answers: pa.StringArray,
    metadata: Metadata,
    rest: list[pa.Array],
    rows: _Provenance,
    wants: Wants,
) -> Parsed:
    spans = pc.coalesce(answers, gold.span)
    for i in np.flatnonzero((gold.kind == Kind.NONE) & spans.is_null().to_numpy(zero_copy_only=False)):
        gold.flaws.setdefault(int(i), Flaw("bad_gold", "the sample has neither expected_output nor answer"))
    dialect = DIALECTS[wants.dialect]
    if dialect.strict_gold:
        gold.refuse_loose()
    if dialect.empty_group == "spoils":
        gold.empty_hollow()
    noted = {**gold.noted, "integer_sample_ids": ids.integers, "ignored_k": metadata.ignored_k}
    fields = {"k": pa.array(metadata.k, pa.int32()), **gold.columns(), "listed": pa.array(gold.listed, pa.int32())}
    fields |= {f"slice:{name}": column for name, column in zip(wants.slice_by, metadata.slices, strict=True)}
    if wants.texts:
        fields["answer"] = spans
    flaws = {**metadata.flaws, **gold.flaws}
    schema = sample_block(wants.slice_by, wants.texts)
    return _assemble(ids, fields, [*gold.content, *rest], flaws, rows, noted, schema, dialect.keeps_flawed)


def _assemble_outputs(ids: Ids, retrieved: Retrieved, rows: _Provenance, wants: Wants, sieve: Sieve | None) -> Parsed:
    dialect = DIALECTS[wants.dialect]
    if dialect.strict_gold:
        retrieved.refuse_integers()
    ranking = rank(retrieved, ids.column, wants.depth, wants.texts, sieve, dialect.repeats == "every")
    fields: dict[str, pa.Array] = {
        "error": pa.array(retrieved.error),
        "length": pa.array(ranking.length, pa.int32()),
        "docs": ranking.docs,
        "ranks": ranking.ranks,
    }
    if wants.texts:
        no_texts = pa.nulls(len(ids.column), pa.list_(pa.string()))
        fields["texts"] = no_texts if ranking.texts is None else ranking.texts
    noted = {
        **retrieved.noted,
        "integer_sample_ids": ids.integers,
        "lists_with_repeats": int(np.count_nonzero(ranking.repeats)),
        "repeated_entries": int(ranking.repeats.sum()),
        "errors": int(np.count_nonzero(retrieved.error)),
    }
    schema = output_block(wants.texts)
    return _assemble(ids, fields, retrieved.content(), retrieved.flaws, rows, noted, schema, dialect.keeps_flawed)


def _assemble(
    ids: Ids,
    fields: dict[str, pa.Array],
    content: list[pa.Array],
    body_flaws: dict[int, Flaw],
    rows: _Provenance,
    noted: dict[str, int],
    schema: pa.Schema,
    keeps_flawed: bool,
) -> Parsed:
    """The common end: digest, envelope, the split between what goes on and what is rejected, and the terms.

    Where the dialect keeps flawed records, one with a good id is shown among the rejected but counted as refused: it is
    the join that says what became of it.
    """
    source, n = rows.source, len(ids.column)
    terms: Counter[str] = Counter({f"{source.side}.read": n})
    # What stopped the decoder explains the rest; a missing id is worth more to know than a bad body.
    flaws = {**body_flaws, **ids.flaws, **rows.flaws}
    if flaws:
        # The body of a flawed record was not kept, so its raw form stands in for its content.
        stand_in: list[str | None] = [None] * n
        for i in flaws:
            stand_in[i] = _raw_text(rows.raw(i))
        content = [*content, pa.array(stand_in, pa.string())]
    else:
        content = [*content, pa.nulls(n)]
    high, low = digest_columns(content)
    defect = np.zeros(n, np.int8)
    for i, flaw in flaws.items():
        # Any flaw keeps a record from being scored, also one that this side has no word of its own for.
        defect[i] = DEFECTS.index(flaw.code if flaw.code in DEFECTS else "bad_output")
    at = place(source.number, np.asarray(rows.numbers, np.int64))
    columns = {
        "sample_id": ids.column,
        "digest_high": pa.array(high),
        "digest_low": pa.array(low),
        "at": list_column(np.arange(n + 1), pa.array(at)),
        "defect": pa.array(defect),
        **fields,
    }
    block = pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)
    if ids.flaws:
        usable = np.ones(n, np.bool_)
        usable[list(ids.flaws)] = False
        block = block.filter(pa.array(usable))
    rejected = [_reject(source, rows.numbers[i], flaws[i], rows.raw(i)) for i in sorted(flaws)]
    for i, flaw in flaws.items():
        word = "refused" if keeps_flawed and i not in ids.flaws else "rejected"
        terms[f"{source.side}.{word}.{flaw.code}"] += 1
    for word, count in noted.items():
        if count:
            terms[f"noted.{source.side}.{word}"] += count
    return Parsed(block, pa.RecordBatch.from_pylist(rejected, REJECTED) if rejected else None, terms)


def refuse(refused: Sequence[Refused], source: Source) -> Parsed:
    """What readers gave up on, each counted as one record read and one rejected."""
    rows = [_reject(source, r.number, Flaw(r.code, r.message), r.preview) | {"sha256": r.sha256} for r in refused]
    terms = Counter(f"{source.side}.rejected.{each.code}" for each in refused)
    terms[f"{source.side}.read"] = len(refused)
    return Parsed(None, pa.RecordBatch.from_pylist(rows, REJECTED), terms)


def _reject(source: Source, number: int, flaw: Flaw, raw: Any) -> dict[str, str]:
    text = _raw_text(raw)
    data = raw if isinstance(raw, bytes) else text.encode()
    return {
        "source": source.side,
        "location": f"{source.path}:{number}",
        "code": flaw.code,
        "message": flaw.message,
        "preview": text[:_PREVIEW],
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _raw_text(raw: Any) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else canonical_json(raw)


def _string(value: Any) -> str | None:
    return value.encode(errors="replace").decode() if isinstance(value, str) else None
