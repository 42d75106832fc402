"""What a ledger says against a run: the one list of reasons for which a run is not committed, and `validate` warns."""

from collections.abc import Callable, Mapping
from typing import Any

from transforms.ledger import SIDES, turned_away

from .plan import Plan


def objections(
    ledger: Mapping[str, Any], plan: Plan, files: Mapping[str, int], why_apart: Callable[[], str]
) -> list[str]:
    """The promises of the plan that the counts break, worst first, each as a line that says what to do.

    `why_apart` looks at the ids themselves, and is asked only where they are to blame.
    """
    empty = [
        f"no {side}: {files[side]} file(s) hold not one record; check --{side}"
        for side in SIDES
        if not ledger[side]["read"]
    ]
    if empty:
        return empty
    found = [line for side in SIDES if (line := too_many_rejects(ledger, plan, side))]
    if not ledger["samples"]["joined"] and not ledger["outputs"]["matched"]:
        found.append(f"0 of {ledger['samples']['read']} samples joined{_unusable(ledger) or why_apart()}")
    missing = ledger["samples"]["missing"]
    if plan.missing == "fail" and missing:
        found.append(
            f"{missing} of {ledger['samples']['read']} samples have no usable output, and --missing is fail;"
            " complete the outputs, or say --missing zero"
        )
    return found


def too_many_rejects(ledger: Mapping[str, Any], plan: Plan, side: str) -> str | None:
    read, away = ledger[side]["read"], turned_away(ledger, side)
    allowed = plan.max_rejects.limit(read)
    if away.total() <= allowed:
        return None
    return (
        f"{away.total()} of {read} {side} rejected ({codes(away)}), more than --max-rejects {plan.max_rejects} allows"
        f" ({allowed})"
    )


def codes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in sorted(counts.items(), key=lambda each: -each[1]))


def _unusable(ledger: Mapping[str, Any]) -> str:
    """Where a side has not one record that could have met another, the ids are not to blame."""
    for side, words in SIDES.items():
        if not any(ledger[side][word] for word in words[:2]):
            away = turned_away(ledger, side)
            return f": every one of the {ledger[side]['read']} {side} was rejected ({codes(away)}); repair those first"
    return ""
