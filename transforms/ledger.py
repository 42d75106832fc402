"""Every record accounted for: terms counted where things happen, added up, and held against each other.

No term is derived from another. Readers count what they read and what they turn away, the join counts what it decides,
the writers count the rows that reached a file; the sums must then agree, or the run does not commit.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .records import STATUS_NAMES

SIDES = {
    "samples": ("joined", "missing", "duplicate"),
    "outputs": ("matched", "unmatched", "duplicate"),
}


class Tally:
    """Counts for people to watch while the job runs in this process. Never part of a result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, terms: Mapping[str, int]) -> None:
        with self._lock:
            self._counts.update(terms)

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

    def clear(self) -> None:
        with self._lock:
            self._counts.clear()


PROGRESS = Tally()


def build_ledger(terms: Mapping[str, int], written: Mapping[str, int], metrics: int) -> dict[str, Any]:
    """The ledger of a run from its pooled terms and from what its files hold.

    `written` comes from the writers' descriptors: metric rows by status, and `rejected` for rows of rejected records.
    """
    rejected = {side: _under(terms, f"{side}.rejected.") for side in SIDES}
    ledger: dict[str, Any] = {
        side: {"read": terms.get(f"{side}.read", 0)}
        | {word: terms.get(f"{side}.{word}", 0) for word in words[:2]}
        | {"rejected": sum(rejected[side].values()), "duplicate": terms.get(f"{side}.duplicate", 0)}
        for side, words in SIDES.items()
    }
    by_status = {status: written.get(status, 0) for status in STATUS_NAMES}
    ledger["metric_rows"] = {
        "expected": (ledger["samples"]["joined"] + ledger["samples"]["missing"]) * metrics,
        "written": sum(by_status.values()),
        "by_status": by_status,
        "scored": _under(terms, "rows."),
    }
    ledger["rejected"] = rejected | {"written": written.get("rejected", 0)}
    # A refused record that the join then rejects as well is counted, like any record, once.
    ledger["refused"] = {
        side: {
            code: count - terms.get(f"{side}.settled.{code}", 0)
            for code, count in _under(terms, f"{side}.refused.").items()
            if count != terms.get(f"{side}.settled.{code}", 0)
        }
        for side in SIDES
    }
    ledger["noted"] = _under(terms, "noted.")
    ledger["balanced"] = not imbalances(ledger)
    return ledger


def turned_away(ledger: Mapping[str, Any], side: str) -> Counter[str]:
    """By code, the records that count against --max-rejects: those rejected, and those that the dialect refused.

    The second kind has rows all the same, of null, so it stands in the sums as joined or missing, not as rejected.
    """
    return Counter(ledger["rejected"][side]) + Counter(ledger["refused"][side])


def imbalances(ledger: Mapping[str, Any]) -> list[str]:
    """Every sum that does not hold, as a sentence; none when each record is accounted for."""
    wrong = []
    for side, words in SIDES.items():
        terms = ledger[side]
        parts = {word: terms[word] for word in (*words[:2], "rejected", "duplicate")}
        if terms["read"] != sum(parts.values()):
            sums = " + ".join(f"{count} {word}" for word, count in parts.items())
            wrong.append(f"{side}: {terms['read']} read is not {sums}")
        lines = {
            word: ledger["noted"].get(f"{side}.{word}", 0) for word in ("lines", "lines_grouped", "lines_rejected")
        }
        if lines["lines"] != lines["lines_grouped"] + lines["lines_rejected"]:
            wrong.append(
                f"{side}: {lines['lines']} lines read is not {lines['lines_grouped']} grouped"
                f" + {lines['lines_rejected']} rejected"
            )
    rows = ledger["metric_rows"]
    if rows["written"] != rows["expected"]:
        wrong.append(f"metric rows: {rows['written']} written is not {rows['expected']} expected")
    scored = {status: count for status, count in rows["scored"].items() if count}
    if scored != {status: count for status, count in rows["by_status"].items() if count}:
        wrong.append(f"metric rows by status: written {rows['by_status']} is not scored {scored}")
    shown = sum(turned_away(ledger, side).total() for side in SIDES)
    if ledger["rejected"]["written"] != shown:
        wrong.append(f"rejected: {ledger['rejected']['written']} rows written for {shown} records")
    return wrong


def _under(terms: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in sorted(terms.items()) if name.startswith(prefix)}
