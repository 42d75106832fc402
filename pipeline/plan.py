"""What a run was asked to do, checked: flags over the plan file over the defaults.

Every value passes the same check wherever it comes from; only the place named in the message differs (`--k`,
`plan.toml: limits.depth`). A `Plan` that exists is a plan that can be run.
"""

import datetime
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, cast

from transforms.dialects import UnknownDialect, find
from transforms.dialects import require as require_metrics
from transforms.limits import LARGEST, Limits
from transforms.metrics.catalog import Metric, UnknownMetric, parse_list
from transforms.metrics.judged import WHOLE
from transforms.order import TIES

from .errors import UsageError
from .fields import Fields, check_fields
from .nearest import suggestion
from .redact import redact

DEFAULT_METRICS = "hit@k,recall@k,mrr,ndcg@k"
FORMATS = ("jsonl", "parquet", "avro", "yaml", "trec", "beir", "autorag", "json")
MISSING = ("zero", "skip", "fail")

Missing = Literal["zero", "skip", "fail"]


@dataclass(frozen=True)
class MaxRejects:
    """How many records of a side may be rejected: a share of those read, a count, or the lesser of both."""

    share: float | None = 0.01
    count: int | None = 1000

    def limit(self, read: int) -> int:
        """The most rejects that `read` records may have.

        Counted in fractions: 29 % of 100 is 29, and in floats it is a little less.
        """
        limits = [] if self.count is None else [self.count]
        if self.share is not None:
            limits.append(int(Fraction(repr(self.share)) * read))
        return min(limits, default=read)

    def __str__(self) -> str:
        share = "" if self.share is None else f"{float(Fraction(repr(self.share)) * 100):g}%"
        return " or ".join(part for part in (share, "" if self.count is None else str(self.count)) if part)


@dataclass(frozen=True)
class Plan:
    """One run. `run_date` is always filled: a plan made at 23:59 and run at 00:01 is still one date."""

    samples: tuple[str, ...]
    outputs: tuple[str, ...]
    out: str
    metrics: tuple[Metric, ...]
    run_date: str
    k: int = 5
    dialect: str = "standard"
    slice_by: tuple[str, ...] = ()
    missing: Missing = "zero"
    replace: bool = False
    max_rejects: MaxRejects = field(default_factory=MaxRejects)
    buckets: int | None = None
    block_rows: int = 65536
    samples_format: str | None = None
    outputs_format: str | None = None
    ties: str = "trec"
    fields: Fields = field(default_factory=Fields)
    limits: Limits = field(default_factory=Limits)

    def describe(self) -> dict[str, Any]:
        """The plan as JSON can hold it, for the manifest. No credentials: URIs are redacted."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "samples": [redact(pattern) for pattern in self.samples],
            "outputs": [redact(pattern) for pattern in self.outputs],
            "out": redact(self.out),
            "metrics": [str(metric) for metric in self.metrics],
            "slice_by": list(self.slice_by),
            "max_rejects": asdict(self.max_rejects),
            "fields": self.fields.describe(),
            "limits": asdict(self.limits),
        }


_PLAIN = (
    *("run_date", "k", "dialect", "missing", "replace", "buckets", "block_rows"),
    *("samples_format", "outputs_format", "ties"),
)


def load_plan(path: str) -> dict[str, Any]:
    """The plan file's values as TOML gives them, each already checked; keys with underscores."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"{redact(path)}: the plan cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{redact(path)}: not a TOML file: {error or 'nested too deep'}") from None
    plan: dict[str, Any] = {}
    for written, value in document.items():
        key = written.replace("-", "_")
        place = f"{redact(path)}: {written}"
        if key not in _KEYS:
            raise UsageError(f"{place}: unknown key{suggestion(key, _KEYS)}")
        if key in plan:
            raise UsageError(f"{place}: given twice, with a dash and with an underscore; keep one")
        if type(value) not in _KEYS[key].toml:  # exactly: to TOML a bool is no int, and a date with a time no date
            expected = " or ".join(_TOML_NAMES[kind] for kind in _KEYS[key].toml)
            raise UsageError(f"{place}: expected {expected}, found {_TOML_NAMES.get(type(value), 'something else')}")
        _KEYS[key].check(value, place)
        plan[key] = value
    return plan


def make_plan(
    flags: Mapping[str, Any],
    plan_file: Mapping[str, Any],
    require: Iterable[str] = ("samples", "outputs", "out"),
) -> Plan:
    """One plan from the flags given (None: not given), then the plan file, then the defaults."""
    values: dict[str, Any] = {}
    for key, rule in _KEYS.items():
        if flags.get(key) is not None:
            values[key] = rule.check(flags[key], _flag(key))
        elif plan_file.get(key) is not None:
            values[key] = rule.check(plan_file[key], f"plan: {key}")
    for key in require:
        if not values.get(key):
            raise UsageError(f"{_flag(key)} is needed (or {key} in the plan file)")
    values.setdefault("samples", ())
    values.setdefault("outputs", ())
    values.setdefault("out", "")
    values.setdefault("metrics", parse_list(DEFAULT_METRICS))
    values.setdefault("run_date", datetime.datetime.now(datetime.UTC).date().isoformat())
    plan = Plan(**values)
    try:
        require_metrics(find(plan.dialect), plan.metrics)  # else its number would be ours under another system's name
    except UnknownDialect as error:
        raise UsageError(str(error)) from None
    return plan


# The checks. Each takes what a flag or the plan file says and the place it was said, and gives what the plan holds.


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _whole(value: Any, place: str) -> int:
    """A whole number above 0. Digits only: `int()` would also take '1_000', ' 5 ' and Arabic-Indic digits."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise UsageError(f"{place} {redact(text)!r}: expected a whole number above 0")
    return int(text)


def _cutoff(value: Any, place: str) -> int:
    k = _whole(value, place)
    if k >= WHOLE:
        raise UsageError(f"{place} {k}: deeper than any list; leave the cutoff out to read whole lists")
    return k


def _one_of(known: Iterable[str]) -> Callable[[Any, str], str]:
    def check(value: Any, place: str) -> str:
        if value not in known:
            raise UsageError(f"{place}: unknown {value!r}{suggestion(str(value), known)}")
        return str(value)

    return check


def _texts(value: Any, place: str) -> list[str]:
    texts: list[Any] = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{place}: expected texts only")
    return texts


def _patterns(value: Any, place: str) -> tuple[str, ...]:
    """File patterns, each whole: a comma would be read as two by some and as one by others, so it is neither."""
    patterns = _texts(value, place)
    for pattern in patterns:
        if not pattern.strip():
            raise UsageError(f"{place}: an empty pattern")
        if "\0" in pattern:
            raise UsageError(f"{place} {redact(pattern)!r}: a NUL character cannot be in a file name")
        if "," in pattern:
            raise UsageError(
                f"{place} {redact(pattern)!r}: one pattern each; for more, repeat the flag or write a list"
                " (write ? for a comma in a file name)"
            )
    return tuple(patterns)


def _folder(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise UsageError(f"{place} {value!r}: expected a folder")
    return value


def _names(value: Any, place: str) -> tuple[str, ...]:
    """Field names, from a list or separated by commas; repeats dropped."""
    names = value.split(",") if isinstance(value, str) else _texts(value, place)
    names = [name.strip() for name in names]
    if not all(names):
        raise UsageError(f"{place} {value!r}: an empty field name")
    return tuple(dict.fromkeys(names))


def _metrics(value: Any, place: str) -> tuple[Metric, ...]:
    if not isinstance(value, Iterable):
        raise UsageError(f"{place} {value!r}: expected names of metrics, such as ndcg@10")
    try:
        return parse_list(value)
    except UnknownMetric as error:
        raise UsageError(f"{place}: {error}") from None


def _run_date(value: Any, place: str) -> str:
    """An ISO date that exists. `2026-W07-1` and `20260218` are ISO too, but would make three names of one folder."""
    text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    try:
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            raise ValueError("expected YYYY-MM-DD")
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise UsageError(f"{place} {text!r}: not a date: {error}") from None


def _max_rejects(value: Any, place: str) -> MaxRejects:
    text = str(value).strip()
    if not isinstance(value, bool) and re.fullmatch(r"[0-9]{1,18}", text):
        return MaxRejects(share=None, count=int(text))
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?\s?%", text):
        share = Fraction(text.rstrip("% ")) / 100
        if share <= 1:
            return MaxRejects(share=float(share), count=None)
    raise UsageError(f"{place} {text!r}: expected a share such as 1% or 0.5%, or a count such as 100")


def _switch(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{place} {value!r}: expected true or false")
    return value


def _limits(value: Any, place: str) -> Limits:
    if isinstance(value, Limits):
        return value
    known = [bound.name for bound in fields(Limits)]
    bounds: dict[str, int] = {}
    for written, bound in cast(Mapping[str, Any], value).items():
        key = written.replace("-", "_")
        if key not in known:
            raise UsageError(f"{place}.{written}: unknown key{suggestion(key, known)}")
        if type(bound) is not int:
            found = _TOML_NAMES.get(type(bound), "something else")
            raise UsageError(f"{place}.{written}: expected a whole number, found {found}")
        bounds[key] = _whole(bound, f"{place}.{written}")
        if bounds[key] > LARGEST.get(key, bounds[key]):
            raise UsageError(f"{place}.{written} {bound}: the most it can be is {LARGEST[key]}")
    return Limits(**bounds)


def _dialect(value: Any, place: str) -> str:
    try:
        return find(str(value)).name
    except UnknownDialect as error:
        raise UsageError(f"{place}: {error}") from None


@dataclass(frozen=True)
class _Key:
    """What the plan file may hold for a key, and the check that makes the plan's value of it."""

    toml: tuple[type, ...]
    check: Callable[[Any, str], Any]


_TOML_NAMES: dict[type, str] = {
    str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table", float: "a number",
    datetime.date: "a date", datetime.datetime: "a date with a time", datetime.time: "a time",
}  # fmt: skip

_KEYS: dict[str, _Key] = {
    "samples": _Key((str, list), _patterns),
    "outputs": _Key((str, list), _patterns),
    "out": _Key((str,), _folder),
    "metrics": _Key((str, list), _metrics),
    "k": _Key((int,), _cutoff),
    "dialect": _Key((str,), _dialect),
    "slice_by": _Key((str, list), _names),
    "missing": _Key((str,), _one_of(MISSING)),
    "run_date": _Key((str, datetime.date), _run_date),
    "replace": _Key((bool,), _switch),
    "max_rejects": _Key((str, int), _max_rejects),
    "buckets": _Key((int,), _whole),
    "block_rows": _Key((int,), _whole),
    "samples_format": _Key((str,), _one_of(FORMATS)),
    "outputs_format": _Key((str,), _one_of(FORMATS)),
    "ties": _Key((str,), _one_of(TIES)),
    "fields": _Key((dict,), check_fields),
    "limits": _Key((dict,), _limits),
}
