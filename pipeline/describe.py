"""`rankbeam metrics`: the catalogue as text, as Markdown for the README, and as JSON for programs."""

import json
from collections.abc import Callable

from transforms.dialects import DIALECTS
from transforms.metrics.catalog import Description, describe

from .errors import UsageError
from .inert import html_safe_json, markdown
from .nearest import suggestion


def describe_metrics(format: str) -> str:
    """Every metric: what it means, how it is computed, when it has no value, how others call it, and who has it."""
    if format not in _FORMATS:
        raise UsageError(f"--format: unknown {format!r}{suggestion(format, _FORMATS)}")
    return _FORMATS[format](describe())


def _dialects(name: str) -> dict[str, str]:
    """The dialects that have the metric, and how it differs there from the standard."""
    return {d.name: d.differs.get(name, "") for d in DIALECTS.values() if name in d.metrics}


def _phrases(name: str) -> list[str]:
    return [f"{dialect}: {how}" if how else dialect for dialect, how in _dialects(name).items()]


def _table(metrics: tuple[Description, ...]) -> str:
    """A paragraph each: eight columns of sentences fit no terminal."""
    lines = []
    for metric in metrics:
        lines += [
            metric.usage,
            f"    meaning    {metric.meaning}",
            f"    formula    {metric.formula}",
            f"    range      {metric.range}",
            f"    undefined  {metric.undefined}",
            *(f"    parameter  {param}" for param in metric.params),
            f"    aliases    {', '.join(metric.aliases) or '-'}",
            f"    dialects   {'; '.join(_phrases(metric.name))}",
            "",
        ]
    lines += ["dialects", *(f"    {dialect.name:<14} {dialect.title}" for dialect in DIALECTS.values()), ""]
    return "\n".join(lines)


def _markdown(metrics: tuple[Description, ...]) -> str:
    lines = ["| metric | meaning | formula | range | undefined | aliases | dialects |", "|" + " :-- |" * 7]
    for metric in metrics:
        cells = (metric.meaning, metric.formula, metric.range, metric.undefined)
        aliases = ", ".join(f"`{alias}`" for alias in metric.aliases)
        texts = [f"`{metric.usage}`", *map(markdown, cells), aliases, markdown("; ".join(_phrases(metric.name)))]
        lines.append("| " + " | ".join(texts) + " |")
    lines += ["", "| dialect | in short |", "| :-- | :-- |"]
    lines += [f"| `{dialect.name}` | {markdown(dialect.title)} |" for dialect in DIALECTS.values()]
    return "\n".join(lines) + "\n"


def _json(metrics: tuple[Description, ...]) -> str:
    document = [
        {
            "name": metric.name,
            "usage": metric.usage,
            "meaning": metric.meaning,
            "formula": metric.formula,
            "range": metric.range,
            "undefined": metric.undefined,
            "params": list(metric.params),
            "aliases": list(metric.aliases),
            "dialects": _dialects(metric.name),
        }
        for metric in metrics
    ]
    return html_safe_json(json.dumps(document, indent=2)) + "\n"


_FORMATS: dict[str, Callable[[tuple[Description, ...]], str]] = {"table": _table, "md": _markdown, "json": _json}
