"""A run as people and programs read it: table, Markdown, CSV, JSON. A mean never stands without its counts."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .errors import UsageError
from .inert import clipped, columns, html_safe_json, markdown, plain, spreadsheet
from .nearest import suggestion
from .redact import redact

CELL_COLUMNS = 40
_HEADINGS = ("metric", "k", "slice", "value", "mean", "± ci", "count", "expected", "missing", "undefined", "answered")
_TEXT_HEADINGS = ("metric", "slice", "value")


@dataclass(frozen=True)
class RunTables:
    """What there is to show of a run."""

    run_date: str
    attempt: str
    path: str
    engine: str | None
    ledger: Mapping[str, Any]
    summary: pa.Table


def run_tables(run: Any, engine: str | None = None) -> RunTables:
    """From a committed run (`pipeline.committed.Run`). Its files are checked before a number of them is taken."""
    run.verify()
    manifest = run.manifest
    found = engine or manifest.get("engine") or manifest.get("versions", {}).get("engine")
    return RunTables(run.run_date, run.attempt, run.path, found, manifest.get("ledger", {}), run.summary())


def render(tables: RunTables, format: str) -> str:
    """The text to print, with its last newline."""
    check_format(format)
    return _FORMATS[format](tables)


def check_format(format: str) -> None:
    """Known before a file is opened: a mistyped word must not cost the reading of a run."""
    if format not in _FORMATS:
        raise UsageError(f"--format: unknown {format!r}{suggestion(format, _FORMATS)}")


def ledger_lines(ledger: Mapping[str, Any]) -> list[str]:
    """The sums written out, so that anybody can add them up."""
    lines = []
    for side, rest in (("samples", ("joined", "missing")), ("outputs", ("matched", "unmatched"))):
        counts = ledger.get(side, {})
        parts = {term: counts.get(term, 0) for term in (*rest, "rejected", "duplicate")}
        lines.append(_sum_line(side, counts.get("read", 0), parts))
    rows = ledger.get("metric_rows", {})
    by_status = {status: n for status, n in rows.get("by_status", {}).items() if n}
    lines.append(_sum_line("metric rows", rows.get("expected", 0), by_status))
    for side in ("samples", "outputs"):
        if codes := ledger.get("rejected", {}).get(side):
            lines.append(f"rejected {side}: " + _counts(codes))
        if codes := ledger.get("refused", {}).get(side):
            lines.append(f"refused {side}: " + _counts(codes) + " (rows of null; counted for --max-rejects)")
    if ledger.get("noted"):
        lines.append("noted: " + _counts(ledger["noted"]))
    lines.append("ledger balanced" if ledger.get("balanced") is True else "ledger NOT BALANCED")
    return lines


def align(headings: tuple[str, ...], rows: list[tuple[str, ...]], text: tuple[str, ...]) -> list[str]:
    """Columns of even width; those named in `text` to the left, numbers to the right."""
    cells = [headings, *(tuple(clipped(cell, CELL_COLUMNS) for cell in row) for row in rows)]
    widths = [max(columns(row[at]) for row in cells) for at in range(len(headings))]
    lines = []
    for row in cells:
        padded = []
        for cell, width, heading in zip(row, widths, headings, strict=True):
            blank = " " * (width - columns(cell))
            padded.append(cell + blank if heading in text else blank + cell)
        lines.append("  ".join(padded).rstrip())
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _table(tables: RunTables) -> str:
    rows = [tuple(plain(cell) for cell in row) for row in _shown_rows(tables.summary)]
    lines = [*align(_HEADINGS, rows, _TEXT_HEADINGS), ""]
    lines += [plain(line) for line in [*ledger_lines(tables.ledger), *_facts(tables)]]
    return "\n".join(lines) + "\n"


def _markdown(tables: RunTables) -> str:
    lines = [
        "| " + " | ".join(_HEADINGS) + " |",
        "|" + "|".join(" :-- " if heading in _TEXT_HEADINGS else " --: " for heading in _HEADINGS) + "|",
    ]
    for row in _shown_rows(tables.summary):
        lines.append("| " + " | ".join(markdown(clipped(plain(cell), CELL_COLUMNS)) for cell in row) + " |")
    lines.append("")
    lines += [f"- {markdown(line)}" for line in [*ledger_lines(tables.ledger), *_facts(tables)]]
    return "\n".join(lines) + "\n"


def _csv(tables: RunTables) -> str:
    """Every column of the summary, numbers in full; the ledger is in the other formats."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(tables.summary.column_names)
    for row in tables.summary.to_pylist():
        writer.writerow([spreadsheet(cell) if isinstance(cell, str) else cell for cell in row.values()])
    return text.getvalue()


def _json(tables: RunTables) -> str:
    document = {
        "run_date": tables.run_date,
        "attempt": tables.attempt,
        "ledger": tables.ledger,
        "summary": tables.summary.to_pylist(),
    }
    return html_safe_json(json.dumps(document, indent=2, allow_nan=False)) + "\n"


_FORMATS: dict[str, Callable[[RunTables], str]] = {"table": _table, "json": _json, "csv": _csv, "md": _markdown}


def _shown_rows(summary: pa.Table) -> list[tuple[str, ...]]:
    return [
        (
            row["metric"],
            _number(row["k"]),
            row["slice"],
            "" if row["slice_value"] is None else row["slice_value"],
            _fraction(row["mean"]),
            _half_width(row["ci_low"], row["ci_high"]),
            _number(row["count"]),
            _number(row["expected"]),
            _number(row["missing"]),
            _number(row["undefined"]),
            "-" if row["answered"] is None else f"{_percent(row['answered'])}%",
        )
        for row in summary.to_pylist()
    ]


def _facts(tables: RunTables) -> list[str]:
    return [
        f"run_date {tables.run_date}",
        f"engine {tables.engine or 'unknown'}",
        f"attempt {redact(tables.path)}",
    ]


def _sum_line(name: str, whole: int, parts: Mapping[str, int]) -> str:
    """`samples 612 = 590 joined + ...`; with ≠ where it is not so, for a ledger that somebody altered."""
    sign = "=" if whole == sum(parts.values()) else "≠"
    return f"{name} {whole:,} {sign} " + (" + ".join(f"{n:,} {term}" for term, n in parts.items()) or "0")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{word} {n:,}" for word, n in counts.items())


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _fraction(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _percent(share: float) -> str:
    """One decimal, never rounded up to a 100 that it is not."""
    return f"{share * 100:.1f}" if share >= 1 or share < 0.9995 else "99.9"


def _half_width(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{(high - low) / 2:.4f}"
