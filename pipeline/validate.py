"""A look at the inputs before a run: what the contract says of them, and what would join. Writes nothing."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from transforms.group import group
from transforms.ledger import SIDES
from transforms.limits import BrokenInput
from transforms.parse import Parsed

from .graph import wants
from .inputs import InputFile, Inputs, find_inputs
from .plan import Plan
from .sources import Reading, is_long, read_blocks

LOOKED_AT = 200_000  # records a side; more would not be "in seconds"
LINES_LOOKED_AT = 2_000_000  # of formats in which a line is a document
_EXAMPLES = 3
_TURNED_AWAY = (".rejected.", ".refused.")
_REPAIRS: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "lower": str.lower,
    "NFC": lambda text: unicodedata.normalize("NFC", text),
    "strip + lower + NFC": lambda text: unicodedata.normalize("NFC", text.strip().lower()),
    "dropping all up to the last '/' or ':'": lambda text: text.replace(":", "/").rpartition("/")[2],
}


@dataclass
class Side:
    """What was seen of one side."""

    terms: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)
    rejects: list[dict[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cut: bool = False


@dataclass
class Report:
    samples: Side
    outputs: Side
    plan: Plan

    @property
    def exit_code(self) -> int:
        sides = (self.samples, self.outputs)
        broken = any(side.problems or not side.ids for side in sides)
        joined = self.samples.ids & self.outputs.ids
        over = any(
            _rejected(side) > self.plan.max_rejects.limit(side.terms[f"{name}.read"])
            for name, side in zip(SIDES, sides, strict=True)
        )
        return 3 if broken or over or not joined else 0

    def lines(self) -> Iterator[str]:
        for name, side in (("samples", self.samples), ("outputs", self.outputs)):
            read = side.terms[f"{name}.read"]
            first = "the first " if side.cut else ""
            yield f"{name}: {first}{read} read, {len(side.ids)} ids, {_rejected(side)} rejected"
            for problem in side.problems:
                yield f"  broken: {problem}"
            for term, count in sorted(side.terms.items()):
                if any(word in term for word in _TURNED_AWAY) or term.startswith("noted."):
                    yield f"  {term.removeprefix('noted.').removeprefix(f'{name}.')}: {count}"
            for row in side.rejects[:_EXAMPLES]:
                yield f"  {row['location']}: {row['code']}: {row['message']}: {row['preview'][:80]}"
        both = len(self.samples.ids & self.outputs.ids)
        hint = why(self.samples.ids, self.outputs.ids)
        yield f"join: {both} of {len(self.samples.ids)} sample ids have an output{hint}"
        yield f"      {len(self.outputs.ids - self.samples.ids)} output ids have no sample"


def validate(plan: Plan) -> Report:
    """Read both sides as a run would, and say what it would find."""
    return _report(plan, find_inputs(plan))


def why_nothing_joins(plan: Plan, inputs: Inputs) -> str:
    report = _report(plan, inputs)
    return why(report.samples.ids, report.outputs.ids)


def why(samples: set[str], outputs: set[str]) -> str:
    """When few ids meet: the repair that would make most of them meet, and an example of each side."""
    if not samples or not outputs or len(samples & outputs) * 2 > len(samples):
        return ""
    gains = {name: _meeting(samples, outputs, repair) for name, repair in _REPAIRS.items()}
    best = max(gains, key=lambda name: gains[name])
    hint = ""
    if gains[best] > len(samples & outputs):
        hint = f"; {100 * gains[best] // len(samples)} % would after {best} of the ids"
    return f"{hint}; a sample id is {min(samples)!r}, an output id is {min(outputs)!r}"


def _meeting(samples: set[str], outputs: set[str], repair: Callable[[str], str]) -> int:
    known = {repair(text) for text in outputs}
    return sum(repair(text) in known for text in samples)


def _report(plan: Plan, inputs: Inputs) -> Report:
    return Report(_look(inputs.samples, inputs, plan), _look(inputs.outputs, inputs, plan), plan)


def _look(files: tuple[InputFile, ...], inputs: Inputs, plan: Plan) -> Side:
    side = Side()
    rows = min(plan.block_rows, 8192)
    reading = Reading(wants(plan), plan.limits, rows, plan.ties, plan.fields, inputs.sources)
    pieces: list[pa.RecordBatch] | None = [] if is_long(files) else None
    for file in files:
        try:
            for parsed in read_blocks(file, reading):
                _add(side, parsed, pieces)
                read, lines = side.terms[f"{file.side}.read"], side.terms[f"noted.{file.side}.lines"]
                if read >= LOOKED_AT or lines >= LINES_LOOKED_AT:
                    side.cut = True
                    break
        except BrokenInput as broken:
            side.problems.append(str(broken))
        if side.cut:
            break
    if pieces:
        for parsed in group(pieces, reading.grouping(files[0].side)):
            _add(side, parsed)
    return side


def _add(side: Side, parsed: Parsed, pieces: list[pa.RecordBatch] | None = None) -> None:
    """Count what was read; blocks that are only pieces of queries are put aside until all are there."""
    side.terms += parsed.terms
    if parsed.rejected is not None and len(side.rejects) < _EXAMPLES:
        side.rejects += parsed.rejected.slice(0, _EXAMPLES).to_pylist()
    if parsed.block is not None and pieces is not None:
        pieces.append(parsed.block)
    elif parsed.block is not None:
        side.ids.update(parsed.block["sample_id"].to_pylist())


def _rejected(side: Side) -> int:
    return sum(count for term, count in side.terms.items() if any(word in term for word in _TURNED_AWAY))
