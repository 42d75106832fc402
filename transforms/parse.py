"""Raw records to blocks: ids checked, bodies read, content digested, only what the plan needs kept.

A record without a usable id leaves here as rejected. A record with a good id and a bad body is counted as rejected too,
but its id goes on with a defect, because the join has to know that this sample's output, or gold, was there.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import as_strings, blank_items, is_texts, list_column
from .decode import Decoded, Flaw, OutputRecord, SampleRecord, canonical_json, decode_lines, decode_rows
from .gold import Gold, Kind, read_gold, read_gold_column
from .hashing import digest_columns
from .limits import BrokenInput
from .records import (
    DEFECTS,
    REJECTED,
    Columns,
    Ints,
    Lines,
    Refused,
    Rows,
    output_block,
    place,
    sample_block,
)
from .retrieved import Retrieved, rank, read_retrieved, read_retrieved_column

NO_VALUE = "(none)"

_PREVIEW = 200
_LONGEST_ID = 512
_CONTROLS = r"[\x00-\x1f\x7f\x{80}-\x{9f}]"
_LISTS = ("actual_output", "actualOutput", "retrieved")


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
        return _refused(raw, source)
    if isinstance(raw, Columns):
        return _sample_columns(raw, source, wants)
    decoded = _decode(raw, SampleRecord)
    metadata = [_metadata(record.metadata, i, decoded.flaws) for i, record in enumerate(decoded.records)]
    gold = read_gold([None if i in decoded.flaws else r.expected_output for i, r in enumerate(decoded.records)])
    answers = pa.array([_string(record.answer) for record in decoded.records], pa.string())
    slices = [[slice_values(fields.get(name)) for fields in metadata] for name in wants.slice_by]
    rest = [canonical_json([r.input, r.metadata]) for r in decoded.records]
    return _assemble_samples(
        ids=_ids([record.id for record in decoded.records]),
        gold=gold,
        answers=answers,
        k=np.array([_k(fields.get("k")) for fields in metadata], np.int64),
        slices=[pa.array(values, pa.list_(pa.string())) for values in slices],
        rest=[pa.array(rest, pa.string())],
        rows=_Provenance(source, decoded.numbers, lambda i: decoded.raw[i], decoded.flaws),
        wants=wants,
    )


def parse_outputs(raw: Raw, source: Source, wants: Wants) -> Parsed:
    """Outputs of one raw block."""
    if isinstance(raw, Refused):
        return _refused(raw, source)
    if isinstance(raw, Columns):
        return _output_columns(raw, source, wants)
    decoded = _decode(raw, OutputRecord)
    extras = [[r.error, r.answer, r.citations, r.latency_ms, r.usage, r.cost] for r in decoded.records]
    rest = [canonical_json(extra) if any(e is not None for e in extra) else None for extra in extras]
    return _assemble_outputs(
        ids=_ids([record.id for record in decoded.records]),
        retrieved=read_retrieved(decoded.records, decoded.flaws),
        rest=[pa.array(rest, pa.string())],
        rows=_Provenance(source, decoded.numbers, lambda i: decoded.raw[i], decoded.flaws),
        wants=wants,
    )


def check_columns(schema: pa.Schema, side: str) -> str | None:
    """What a columnar file lacks, expected against found; None when it will do."""
    names = set(schema.names)
    found = ", ".join(f"{field.name}: {field.type}" for field in schema) or "no columns"
    if "id" not in names:
        return f"expected a column `id`, found {found}"
    if not (is_texts(schema.field("id").type) or pa.types.is_integer(schema.field("id").type)):
        return f"expected `id` to hold strings or integers, found {schema.field('id').type}"
    body = ("expected_output", "answer") if side == "samples" else (*_LISTS, "error")
    if not names & set(body):
        return f"expected a column {' or '.join(f'`{name}`' for name in body[:3])}, found {found}"
    for name in names & {"expected_output", *_LISTS}:
        kind = schema.field(name).type
        if not (pa.types.is_nested(kind) or is_texts(kind) or pa.types.is_null(kind)):
            return f"expected `{name}` to hold lists, maps or JSON text, found {kind}"
    return None


def slice_values(value: Any) -> list[str]:
    """The slice values of a metadata field: each item of a list once, non-strings as JSON, nothing as `(none)`."""
    items = value if isinstance(value, (list, tuple)) else [value]
    texts = [item if isinstance(item, str) else canonical_json(item) for item in items if item is not None]
    return list(dict.fromkeys(text.encode(errors="replace").decode() for text in texts)) or [NO_VALUE]


@dataclass
class _Provenance:
    """Where the rows of a block came from, and what is known to be wrong with them."""

    source: Source
    numbers: list[int] | range
    raw: Callable[[int], Any]
    flaws: dict[int, Flaw]


def _decode(raw: Lines | Rows, record_type: type[Any]) -> Decoded:
    return decode_lines(raw, record_type) if isinstance(raw, Lines) else decode_rows(raw, record_type)


def _sample_columns(raw: Columns, source: Source, wants: Wants) -> Parsed:
    batch = _checked(raw.batch, source)
    n = batch.num_rows
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    flaws: dict[int, Flaw] = {}
    metadata = _field_values(columns.get("metadata"), ("k", *wants.slice_by), n, flaws)
    gold = columns.get("expected_output")
    answer = columns.get("answer")
    return _assemble_samples(
        ids=_id_column(columns["id"]),
        gold=read_gold([None] * n) if gold is None else read_gold_column(gold),
        answers=pa.nulls(n, pa.string()) if answer is None or not is_texts(answer.type) else as_strings(answer),
        k=np.zeros(n, np.int64) if metadata is None else np.array([_k(v) for v in metadata["k"]], np.int64),
        slices=[_slice_column(metadata, name, n) for name in wants.slice_by],
        rest=[columns[name] for name in ("input", "metadata") if name in columns],
        rows=_provenance(raw, source, flaws),
        wants=wants,
    )


def _output_columns(raw: Columns, source: Source, wants: Wants) -> Parsed:
    batch = _checked(raw.batch, source)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    present = [name for name in _LISTS if name in columns]
    retrieved = None
    if len(present) == 1:
        error = _error_column(columns.get("error"), batch.num_rows)
        lists = columns[present[0]]
        if pa.types.is_struct(lists.type) and lists.type.get_field_index("retrieved") >= 0:
            if lists.type.get_field_index("error") < 0:
                lists = pc.struct_field(lists, "retrieved")
        retrieved = read_retrieved_column(lists, error)
    if retrieved is None:
        rows = Rows(list(_numbers(raw)), batch.to_pylist())
        return parse_outputs(rows, source, wants)
    extras = ("error", "answer", "citations", "latency_ms", "usage", "cost")
    return _assemble_outputs(
        ids=_id_column(columns["id"]),
        retrieved=retrieved,
        rest=[columns[name] for name in extras if name in columns],
        rows=_provenance(raw, source, {}),
        wants=wants,
    )


def _checked(batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    problem = check_columns(batch.schema, source.side)
    if problem is not None:
        raise BrokenInput(source.path, problem)
    return batch


def _numbers(raw: Columns) -> range:
    return range(raw.first, raw.first + raw.batch.num_rows)


def _provenance(raw: Columns, source: Source, flaws: dict[int, Flaw]) -> _Provenance:
    return _Provenance(source, _numbers(raw), lambda i: raw.batch.slice(i, 1).to_pylist()[0], flaws)


def _assemble_samples(
    ids: "_Ids",
    gold: Gold,
    answers: pa.StringArray,
    k: Ints,
    slices: list[pa.Array],
    rest: list[pa.Array],
    rows: _Provenance,
    wants: Wants,
) -> Parsed:
    spans = pc.coalesce(answers, gold.span)
    for i in np.flatnonzero((gold.kind == Kind.NONE) & spans.is_null().to_numpy(zero_copy_only=False)):
        gold.flaws.setdefault(int(i), Flaw("bad_gold", "the sample has neither expected_output nor answer"))
    body = gold.columns()
    noted = {**gold.noted, "integer_sample_ids": ids.integers}
    fields = {"k": pa.array(k, pa.int32()), **body}
    fields |= {f"slice:{name}": column for name, column in zip(wants.slice_by, slices, strict=True)}
    if wants.texts:
        fields["answer"] = spans
    content = [*body.values(), spans, *rest]
    return _assemble(ids, fields, content, gold.flaws, rows, noted, sample_block(wants.slice_by, wants.texts))


def _assemble_outputs(
    ids: "_Ids", retrieved: Retrieved, rest: list[pa.Array], rows: _Provenance, wants: Wants
) -> Parsed:
    content = [*retrieved.content(), *rest]
    ranking = rank(retrieved, wants.depth, wants.texts)
    fields: dict[str, pa.Array] = {
        "error": pa.array(retrieved.error),
        "length": pa.array(ranking.length, pa.int32()),
        "docs": ranking.docs,
    }
    if wants.texts:
        fields["texts"] = ranking.texts if ranking.texts is not None else pa.nulls(len(ids.column), pa.list_(pa.string()))
    noted = {
        **retrieved.noted,
        "integer_sample_ids": ids.integers,
        "lists_with_repeats": int(np.count_nonzero(ranking.repeats)),
        "repeated_entries": int(ranking.repeats.sum()),
        "errors": int(np.count_nonzero(retrieved.error)),
    }
    return _assemble(ids, fields, content, retrieved.flaws, rows, noted, output_block(wants.texts))


def _assemble(
    ids: "_Ids",
    fields: dict[str, pa.Array],
    content: list[pa.Array],
    body_flaws: dict[int, Flaw],
    rows: _Provenance,
    noted: dict[str, int],
    schema: pa.Schema,
) -> Parsed:
    """The common end: digest, envelope, the split between what goes on and what is rejected, and the terms."""
    source, n = rows.source, len(ids.column)
    terms: Counter[str] = Counter({f"{source.side}.read": n})
    # What stopped the decoder explains the rest; a missing id is worth more to know than a bad body.
    flaws = {**body_flaws, **ids.flaws, **rows.flaws}
    if flaws:
        # The body of a flawed record was not kept, so its raw form stands in for its content.
        stand_in = [None] * n
        for i in flaws:
            stand_in[i] = _raw_text(rows.raw(i))
        content = [*content, pa.array(stand_in, pa.string())]
    else:
        content = [*content, pa.nulls(n)]
    high, low = digest_columns(content)
    defect = np.zeros(n, np.int8)
    for i, flaw in flaws.items():
        defect[i] = DEFECTS.index(flaw.code) if flaw.code in DEFECTS else 0
    at = np.fromiter((place(source.number, number) for number in rows.numbers), np.int64, n)
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
    for row in rejected:
        terms[f"{source.side}.rejected.{row['code']}"] += 1
    for word, count in noted.items():
        if count:
            terms[f"noted.{source.side}.{word}"] += count
    return Parsed(block, pa.RecordBatch.from_pylist(rejected, REJECTED) if rejected else None, terms)


def _refused(raw: Refused, source: Source) -> Parsed:
    row = _reject(source, raw.number, Flaw(raw.code, raw.message), raw.preview) | {"sha256": raw.sha256}
    terms = Counter({f"{source.side}.read": 1, f"{source.side}.rejected.{raw.code}": 1})
    return Parsed(None, pa.RecordBatch.from_pylist([row], REJECTED), terms)


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


@dataclass
class _Ids:
    column: pa.StringArray
    flaws: dict[int, Flaw]
    integers: int


def _ids(values: list[Any]) -> _Ids:
    flaws: dict[int, Flaw] = {}
    integers = 0
    if set(map(type, values)) != {str}:
        values = list(values)
        for i, value in enumerate(values):
            if isinstance(value, str):
                continue
            values[i] = None
            if value is None:
                continue
            if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
                values[i] = str(value)
                integers += 1
            else:
                flaws[i] = Flaw("bad_id", f"the id is a {type(value).__name__}, not a string or an integer")
    for i, value in enumerate(values):
        if value is not None and not value.isascii() and value != value.encode(errors="replace").decode():
            values = [*values[:i], None, *values[i + 1 :]]
            flaws[i] = Flaw("bad_id", "the id is not valid Unicode")
    return _checked_ids(pa.array(values, pa.string()), flaws, integers)


def _id_column(column: pa.Array) -> _Ids:
    integers = len(column) - column.null_count if pa.types.is_integer(column.type) else 0
    return _checked_ids(as_strings(column), {}, integers)


def _checked_ids(column: pa.StringArray, flaws: dict[int, Flaw], integers: int) -> _Ids:
    for i in np.flatnonzero(blank_items(column)):
        flaws.setdefault(int(i), Flaw("missing_id", "the record has no id, or a blank one"))
    for i in _where(pc.greater(pc.utf8_length(column), _LONGEST_ID)):
        flaws.setdefault(i, Flaw("bad_id", f"the id is longer than {_LONGEST_ID} characters"))
    for i in _where(pc.match_substring_regex(column, _CONTROLS)):
        flaws.setdefault(i, Flaw("bad_id", "the id holds control characters"))
    return _Ids(column, flaws, integers)


def _where(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    return found


def _metadata(value: Any, i: int, flaws: dict[int, Flaw]) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    if isinstance(value, dict):
        return value
    flaws.setdefault(i, Flaw("bad_gold", "metadata is not an object"))
    return {}


def _field_values(
    column: pa.Array | None, names: tuple[str, ...], n: int, flaws: dict[int, Flaw]
) -> dict[str, list[Any]] | None:
    """The values of some metadata fields, column by column; None when there is no metadata."""
    if column is None or pa.types.is_null(column.type):
        return None
    if pa.types.is_struct(column.type):
        known = [name for name in names if column.type.get_field_index(name) >= 0]
        absent: dict[str, list[Any]] = {name: [None] * n for name in names if name not in known}
        return absent | {name: pc.struct_field(column, name).to_pylist() for name in known}
    values = column.to_pylist()
    if pa.types.is_map(column.type):
        values = [None if value is None else dict(value) for value in values]
    fields = [_metadata(value, i, flaws) for i, value in enumerate(values)]
    return {name: [each.get(name) for each in fields] for name in names}


def _slice_column(metadata: dict[str, list[Any]] | None, name: str, n: int) -> pa.Array:
    values = [None] * n if metadata is None else metadata[name]
    return pa.array([slice_values(value) for value in values], pa.list_(pa.string()))


def _error_column(column: pa.Array | None, n: int) -> Any:
    if column is None or pa.types.is_null(column.type):
        return np.zeros(n, np.bool_)
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False)
    if is_texts(column.type):
        return pc.not_equal(as_strings(column), "").fill_null(False).to_numpy(zero_copy_only=False)
    return column.is_valid().to_numpy(zero_copy_only=False)


def _k(value: Any) -> int:
    """A sample's own cutoff, or 0 where it has no valid one."""
    valid = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 < value < 2**31
    return int(value) if valid else 0


def _string(value: Any) -> str | None:
    return value.encode(errors="replace").decode() if isinstance(value, str) else None
