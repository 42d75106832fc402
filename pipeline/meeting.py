"""Why ids that should meet do not: which small repair, tried on all of them, would make the most of them meet."""

import re
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Ids: TypeAlias = pa.Array

_EXTENSION = r"\.[A-Za-z0-9]{1,5}$"
_SHOWN = 80


def _strip(ids: Ids) -> Ids:
    return pc.utf8_trim_whitespace(ids)


def _composed(ids: Ids) -> Ids:
    return pc.utf8_normalize(ids, form="NFC")


def _folded(ids: Ids) -> Ids:
    return _strip(_composed(pc.utf8_lower(ids)))


def _without(pattern: str, kept: str = "") -> Callable[[Ids], Ids]:
    return lambda ids: pc.replace_substring_regex(ids, pattern, kept)


# The gentlest first: of repairs that do equally well, the first is named.
_REPAIRS: dict[str, Callable[[Ids], Ids]] = {
    "strip": _strip,
    "lower": pc.utf8_lower,
    "NFC": _composed,
    "strip + lower + NFC": _folded,
    "dropping zeros in front of numbers": _without(r"^0+([0-9])", r"\1"),
    "dropping a '.0' at the end": _without(r"\.0+$"),
    "dropping a file extension": _without(_EXTENSION),
    "dropping all up to the last '/' or ':'": _without(r"^.*[/:]"),
    "dropping folders and a file extension": lambda ids: _without(_EXTENSION)(_without(r"^.*[/:]")(ids)),
}


def why(samples: Ids, outputs: Ids) -> str:
    """When few of the distinct ids meet: the repair that would make the most of them meet, and an id of each side."""
    if not len(samples) or not len(outputs):
        return ""
    apart = pc.invert(pc.is_in(samples, value_set=outputs))
    met = len(samples) - pc.sum(apart).as_py()
    if met * 2 > len(samples):
        return ""
    tried = {name: _meeting(repair(samples), repair(outputs)) for name, repair in _REPAIRS.items()}
    for drop in (_affix(samples, outputs, back=False), _affix(samples, outputs, back=True)):
        if drop is not None:
            tried[drop[0]] = _meeting(drop[1](samples), drop[2](outputs))
    best = max(tried, key=lambda name: tried[name])
    hint = f"; {_percent(tried[best], len(samples))} would after {best}" if tried[best] > met else ""
    lone = pc.min(samples.filter(apart)).as_py()
    return f"{hint}; a sample id is {_shown(lone)}, an output id is {_shown(pc.min(outputs).as_py())}"


def _percent(part: int, whole: int) -> str:
    """Never rounded up to a 100 % that it is not, nor down to a 0 %."""
    return f"{100 * part // whole} %" if 100 * part >= whole else "under 1 %"


def _meeting(samples: Ids, outputs: Ids) -> int:
    found: int = pc.sum(pc.is_in(samples, value_set=outputs)).as_py()
    return found


_Drop = tuple[str, Callable[[Ids], Ids], Callable[[Ids], Ids]]


def _affix(samples: Ids, outputs: Ids, back: bool) -> _Drop | None:
    """What all ids of a side begin with (or end with), taken off that side; None where that is nothing."""
    ours, theirs = _shared(samples, back), _shared(outputs, back)
    if ours == theirs or len(samples) < 2 or len(outputs) < 2:
        return None
    where = "end" if back else "front"
    parts = [f"{_shown(text)} of the {side}' ids" for text, side in ((ours, "samples"), (theirs, "outputs")) if text]
    patterns = [re.escape(text) + "$" if back else "^" + re.escape(text) for text in (ours, theirs)]
    return f"dropping {' and '.join(parts)} at the {where}", _without(patterns[0]), _without(patterns[1])


def _shared(ids: Ids, back: bool) -> str:
    """The text that all ids have in common at one end, without digits next to the rest: `q-1` of q-10 to q-19 is `q-`.

    What the least and the greatest share, all share.
    """
    column = pc.utf8_reverse(ids) if back else ids
    ends = pc.min_max(column)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    length = next((i for i, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), len(least))
    text: str = least[:length].rstrip("0123456789")
    return text[::-1] if back else text


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
