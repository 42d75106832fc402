"""Blocks of judged rankings, built the slow way from plain lists."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from transforms.metrics.judged import WHOLE, Cutoff, Judged

Gold = dict[str, float] | list[str] | list[list[str]]


@dataclass
class Topic:
    """One sample: its gold as a contract's `expected_output`, and its ranking as ids."""

    gold: Gold
    retrieved: list[str] = field(default_factory=list)
    k: int = 5


def judged_block(topics: Sequence[Topic]) -> Judged:
    entries, golds, grouped, matches, lengths = [], [], [], [], []
    for row, topic in enumerate(topics):
        ranked = list(dict.fromkeys(topic.retrieved))
        groups, gains = _normal(topic.gold)
        entries += [(row, rank, gains[doc]) for rank, doc in enumerate(ranked, 1) if doc in gains]
        golds += [(row, gain) for gain in sorted(gains.values(), reverse=True)]
        for members in groups:
            ranks = [rank for rank, doc in enumerate(ranked, 1) if doc in members]
            matches += [(rank, len(grouped)) for rank in ranks]
            grouped.append((row, gains[members[0]] if len(members) == 1 else 1.0, min(ranks, default=0)))
        lengths.append(len(ranked))
    return Judged(
        n=len(topics),
        row=np.array([entry[0] for entry in entries], np.int64),
        rank=np.array([entry[1] for entry in entries], np.int64),
        gain=np.array([entry[2] for entry in entries], np.float64),
        first=np.ones(len(entries), np.bool_),
        length=np.array(lengths, np.int64),
        gold_row=np.array([gold[0] for gold in golds], np.int64),
        gold_gain=np.array([gold[1] for gold in golds], np.float64),
        group_row=np.array([group[0] for group in grouped], np.int64),
        group_gain=np.array([group[1] for group in grouped], np.float64),
        group_rank=np.array([group[2] for group in grouped], np.int64),
        match_group=np.array([match[1] for match in matches], np.int64),
        match_rank=np.array([match[0] for match in matches], np.int64),
        listed=np.array([len(list(_flat(topic.gold))) for topic in topics], np.int64),
    )


def concatenated(blocks: Iterable[Judged]) -> Judged:
    """Several blocks as one."""
    columns: dict[str, list[np.ndarray]] = {column.name: [] for column in fields(Judged) if column.name != "n"}
    n = groups = 0
    for block in blocks:
        for name, parts in columns.items():
            part = getattr(block, name)
            shift = n if name.endswith("row") else groups if name == "match_group" else 0
            parts.append(part + shift if shift else part)
        n += block.n
        groups += len(block.group_row)
    return Judged(n=n, **{name: np.concatenate(parts) for name, parts in columns.items()})


def cutoffs(topics: Sequence[Topic], cutoff: int | str | None) -> Cutoff:
    """A metric's cutoff as the array that its function takes."""
    if cutoff == "k":
        return np.array([topic.k for topic in topics], np.int64)
    return np.full(len(topics), WHOLE if cutoff is None else cutoff, np.int64)


def _flat(gold: Gold) -> Iterable[str]:
    for item in gold:
        yield from item if isinstance(item, list) else [item]


def _normal(gold: Gold) -> tuple[list[list[str]], dict[str, float]]:
    """Groups of ids, and id → gain."""
    if isinstance(gold, dict):
        return [[doc] for doc in gold], {doc: float(gain) for doc, gain in gold.items()}
    if any(isinstance(item, list) for item in gold):
        groups = [list(dict.fromkeys(item)) if isinstance(item, list) else [item] for item in gold]
    else:
        groups = [[doc] for doc in dict.fromkeys(gold)]
    return groups, {doc: 1.0 for group in groups for doc in group}
