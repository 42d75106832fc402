"""A look at the inputs before a run: what was found, what the contract says of it, what would join. Writes nothing.

The records are read and joined by the run's own steps, so the counts are those that a run would have.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.dialects import BY_ID, DIALECTS, matching
from transforms.gold import Kind
from transforms.group import group
from transforms.join import fold, join
from transforms.ledger import SIDES, build_ledger, turned_away
from transforms.limits import BrokenInput
from transforms.metadata import NO_VALUE
from transforms.parse import Parsed
from transforms.records import REJECTED, output_block, sample_block

from .graph import wants
from .inputs import InputFile, Inputs, find_inputs
from .meeting import why
from .plan import Plan
from .redact import redact
from .sources import Reading, is_long, read_blocks
from .verdict import objections

LOOKED_AT = 5_000_000  # records a side; an id costs some 50 bytes here, and a run can tell the rest
LINES_LOOKED_AT = 10_000_000  # of formats in which a line is a document: all of a query's are needed at once
_EXAMPLES = 3
_PREVIEW = 60
# All that the join reads. The lists are not kept: nothing is scored here.
_ENVELOPE = ("sample_id", "digest_high", "digest_low", "at", "defect", "error")


@dataclass
class Side:
    """What was seen of one side."""

    name: str
    files: tuple[InputFile, ...]
    terms: Counter[str] = field(default_factory=Counter)
    kept: list[pa.RecordBatch] = field(default_factory=list)
    examples: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    has: Counter[str] = field(default_factory=Counter)
    """How many records have what some metrics need: answers, texts, slice fields; and how many no gold to find."""
    cut: bool = False

    def ids(self) -> pa.Array:
        """Distinct ids of the usable records."""
        found = [block.filter(pc.equal(block["defect"], 0))["sample_id"] for block in self.kept]
        return pc.unique(pa.chunked_array(found, pa.string()))


@dataclass
class Report:
    sides: dict[str, Side]
    plan: Plan
    ledger: dict[str, Any]

    @cached_property
    def objections(self) -> list[str]:
        """For what a run would not be committed. What was cut short cannot say that nothing joins."""
        broken = [problem for side in self.sides.values() for problem in side.problems]
        if broken:
            return broken
        files = {name: len(side.files) for name, side in self.sides.items()}
        found = objections(self.ledger, self.plan, files, self.why_apart)
        return [line for line in found if not (self.cut and line.startswith("0 of "))]

    @property
    def cut(self) -> bool:
        return any(side.cut for side in self.sides.values())

    def why_apart(self) -> str:
        return self._why

    @cached_property
    def _why(self) -> str:
        return why(self.sides["samples"].ids(), self.sides["outputs"].ids())

    @property
    def exit_code(self) -> int:
        return 3 if self.objections else 0

    def lines(self) -> Iterator[str]:
        for side in self.sides.values():
            yield from self._side_lines(side)
        yield from self._join_lines()
        yield from (f"needs: {unmet}" for unmet in self._unmet())
        against = self.objections
        yield from (f"a run would fail: {line}" for line in against)
        if not against and not self.cut:
            yield "a run would commit"
        elif not against:
            yield "of what was looked at, nothing would keep a run from being committed; only a run looks at all of it"

    def _side_lines(self, side: Side) -> Iterator[str]:
        counts, away = self.ledger[side.name], turned_away(self.ledger, side.name)
        first = "the first " if side.cut else ""
        formats = side.files[0].format
        yield (
            f"{side.name}: {len(side.files)} file(s), {formats}: {first}{counts['read']} read, {away.total()} rejected,"
            f" {counts['duplicate']} duplicate"
        )
        yield from (f"  broken: {problem}" for problem in side.problems)
        unread = dict.fromkeys(name for file in side.files for name in file.unread)
        if unread:
            yield f"  columns not read: {', '.join(unread)}"
        for code, count in away.items():
            yield f"  {code}: {count}"
            for row in side.examples.get(code, []):
                yield f"    {row['location']}: {row['message']}: {row['preview'][:_PREVIEW]}"
        noted = {term: n for term, n in self.ledger["noted"].items() if term.startswith(f"{side.name}.")}
        if noted:
            yield "  noted: " + ", ".join(f"{term.removeprefix(f'{side.name}.')} {n}" for term, n in noted.items())

    def _join_lines(self) -> Iterator[str]:
        samples, outputs = self.ledger["samples"], self.ledger["outputs"]
        scored = samples["joined"] + samples["missing"]
        cut = " of those looked at" if self.cut else ""
        # Where nothing joins, the reason is the last line, with what a run would say.
        hint = self.why_apart() if samples["joined"] else ""
        yield f"join: {samples['joined']} of {scored} samples have an output{cut}{hint}"
        yield f"      {outputs['unmatched']} outputs have no sample{cut}"

    def _unmet(self) -> Iterator[str]:
        """What was asked for and cannot be had from these files."""
        samples, outputs = self.sides["samples"], self.sides["outputs"]
        by = {str(metric): matching(DIALECTS[self.plan.dialect], metric) for metric in self.plan.metrics}
        spans = [name for name, how in by.items() if how.how == "span"]
        ranking = [name for name, how in by.items() if how.how != "span"]
        texts = [name for name, how in by.items() if how != BY_ID]
        usable = self.ledger["samples"]["joined"] + self.ledger["samples"]["missing"]
        if texts and not outputs.has["texts"]:
            yield f"{', '.join(texts)} read texts, and no output has one; give entries as {{id, text}}"
        if spans and not samples.has["answers"]:
            yield f"{', '.join(spans)} look for an answer, and no sample has one; give `answer`"
        if ranking and samples.has["nothing relevant"]:
            without = samples.has["nothing relevant"]
            yield f"{without} samples name no relevant document; {', '.join(ranking)} cannot find one there"
        for name in self.plan.slice_by:
            if not samples.has[f"slice:{name}"] and usable:
                yield f"--slice-by {name}: no sample has that field in its metadata"


def validate(plan: Plan) -> Report:
    """Read both sides as a run would, and say what it would find."""
    return report(plan, find_inputs(plan))


def report(plan: Plan, inputs: Inputs) -> Report:
    sides = {name: _look(name, getattr(inputs, name), inputs, plan) for name in SIDES}
    keeps_flawed = DIALECTS[plan.dialect].keeps_flawed
    blocks = [_whole(side) for side in sides.values()]
    _, conflicts, terms = join(blocks[0], blocks[1], inputs.sources, keeps_flawed)
    for batch in conflicts:
        told = batch.cast(REJECTED)
        for name, side in sides.items():
            _remember(side, told.filter(pc.equal(told["source"], name)))
    total = sum((side.terms for side in sides.values()), terms)
    return Report(sides, plan, build_ledger(total, {}, len(plan.metrics)))


def _whole(side: Side) -> pa.RecordBatch:
    schema = sample_block((), False) if side.name == "samples" else output_block(False)
    needed = pa.schema([each for each in schema if each.name in _ENVELOPE])
    return fold(pa.concat_batches(side.kept) if side.kept else pa.RecordBatch.from_pylist([], needed))


def _look(name: str, files: tuple[InputFile, ...], inputs: Inputs, plan: Plan) -> Side:
    side = Side(name, files)
    rows = min(plan.block_rows, 8192)
    reading = Reading(wants(plan), plan.limits, rows, plan.ties, plan.fields, inputs.sources)
    pieces: list[pa.RecordBatch] | None = [] if is_long(files) else None
    for file in files:
        try:
            for parsed in read_blocks(file, reading):
                _add(side, parsed, pieces)
                read, lines = side.terms[f"{name}.read"], side.terms[f"noted.{name}.lines"]
                if read >= LOOKED_AT or lines >= LINES_LOOKED_AT:
                    side.cut = True
                    break
        except BrokenInput as broken:
            side.problems.append(redact(str(broken)))
        if side.cut:
            break
    if pieces:
        for parsed in group(pieces, reading.grouping(name)):
            _add(side, parsed)
    return side


def _add(side: Side, parsed: Parsed, pieces: list[pa.RecordBatch] | None = None) -> None:
    """Count what was read; blocks that are only pieces of queries are put aside until all are there."""
    side.terms += parsed.terms
    if parsed.rejected is not None:
        _remember(side, parsed.rejected)
    if parsed.block is not None and pieces is not None:
        pieces.append(parsed.block)
    elif parsed.block is not None:
        side.has += _counted(parsed.block.filter(pc.equal(parsed.block["defect"], 0)))
        side.kept.append(parsed.block.select([name for name in _ENVELOPE if name in parsed.block.schema.names]))


def _remember(side: Side, rejected: pa.RecordBatch) -> None:
    """The first few of each code."""
    for code in pc.unique(rejected["code"]).to_pylist():
        seen = side.examples.setdefault(code, [])
        if len(seen) < _EXAMPLES:
            seen += rejected.filter(pc.equal(rejected["code"], code)).slice(0, _EXAMPLES - len(seen)).to_pylist()


def _counted(block: pa.RecordBatch) -> Counter[str]:
    """How many records have what some metrics need, or lack what the others do."""
    has: Counter[str] = Counter()
    for name in block.schema.names:
        column = block[name]
        if name == "gains":
            has["nothing relevant"] = _without_relevant(block)
        elif name == "answer":
            has["answers"] = len(column) - column.null_count
        elif name == "texts":
            items = column.flatten()
            has["texts"] = len(items) - items.null_count
        elif name.startswith("slice:"):
            has[name] = len(column) - (pc.sum(pc.equal(column.flatten(), NO_VALUE)).as_py() or 0)
    return +has


def _without_relevant(samples: pa.RecordBatch) -> int:
    """Samples whose gold names no document with a gain above 0. Only graded gold has gains."""
    parents, gains = pc.list_parent_indices(samples["gains"]), samples["gains"].flatten()
    positive = np.zeros(len(samples), np.bool_)
    positive[parents.filter(pc.greater(gains, 0)).to_numpy()] = True
    kind = samples["kind"].to_numpy()
    listed = samples["docs"].value_lengths().fill_null(0).to_numpy(zero_copy_only=False) > 0
    relevant = np.where(kind == Kind.GRADED, positive, listed & (kind != Kind.TEXT))
    return int(np.count_nonzero(~relevant))
