"""What a metric is: a value with a name, and the line that describes it in the catalogue."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..records import Floats

Value = str | float | bool
Cut = int | Literal["k"] | None

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class UnknownMetric(ValueError):
    """A text that names no metric of the catalogue. The message is one line and says what would."""


@dataclass(frozen=True)
class Metric:
    name: str
    params: tuple[tuple[str, Value], ...] = ()
    """Those that differ from their defaults, in the catalogue's order."""
    cutoff: Cut = None
    """A fixed depth, "k" for each sample's own, None for the whole list."""

    def __str__(self) -> str:
        params = ",".join(f"{name}={as_text(value)}" for name, value in self.params)
        return self.name + (f"({params})" if params else "") + ("" if self.cutoff is None else f"@{self.cutoff}")


@dataclass(frozen=True)
class Param:
    name: str
    default: Value | None
    """None where the metric has a rule of its own that no value spells."""
    meaning: str
    choices: tuple[str, ...] = ()
    above: float = -math.inf
    below: float = math.inf
    most: float = math.inf
    judges: bool = False
    """Whether it says what counts as found, and so is read by the judge and not by the metric's function."""

    @property
    def allowed(self) -> str:
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        below = "" if self.below == math.inf else f" and below {self.below:g}"
        return f"a number above {self.above:g}{below}" + ("" if self.most == math.inf else f", at most {self.most:g}")

    def read(self, text: str) -> Value:
        """The value that a text stands for; ValueError if it is none that is allowed."""
        if self.choices and text in self.choices:
            return text
        if isinstance(self.default, bool) and text in ("true", "false"):
            return text == "true"
        if not self.choices and not isinstance(self.default, bool) and _NUMBER.fullmatch(text):
            number = float(text)
            if self.above < number < self.below and number <= self.most:
                return number
        raise ValueError(f"{self.name} must be {self.allowed}")


@dataclass(frozen=True)
class Entry:
    measure: Callable[..., Floats]
    """Called with (judged, k, **params), k holding WHOLE where the metric has no cutoff. NaN = undefined. Parameters
    that the judge reads are not among them."""
    meaning: str
    formula: str
    params: tuple[Param, ...] = ()
    aliases: tuple[str, ...] = ()
    """As other systems write them, their case kept. `<k>` stands for a cutoff glued to the name."""
    takes_cutoff: bool = True
    range: str = "[0, 1]"
    undefined: str = "nothing relevant in the gold"


@dataclass(frozen=True)
class Description:
    """One line of the catalogue as text."""

    name: str
    usage: str
    meaning: str
    formula: str
    range: str
    undefined: str
    params: tuple[str, ...]
    aliases: tuple[str, ...]


def as_text(value: Value) -> str:
    """A parameter's value as a name spells it: true and not True, 2 and not 2.0."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
