"""Which retrieved texts are a gold document: by holding an answer, by being a piece of it, or by being much like it.

Every function takes plain texts and, for each entry, the stretch of gold texts that belong to its sample; it gives
(entry, gold) pairs in order of the entries. Texts are compared, never opened.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rapidfuzz import fuzz, process

from .records import Ints

# White space by Unicode, and U+180E, which once was and to PCRE still is. Not \s: Python's has control characters.
_BLANKS = re.compile("[\t-\r \x85\xa0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_ASCII_BLANKS = " \t\n\r\0\x0b"
_SPEAKERS = ("user: ", "assistant: ")

LONGEST = 1_000
"""Characters of a text that likeness looks at: its cost grows with the product of both lengths."""
_PAIRS_AT_ONCE = 1 << 16

Pairs = tuple[Ints, Ints]


def even(text: str, case_sensitive: bool) -> str:
    """Runs of white space as one blank, none at the ends, lower case unless case matters."""
    text = _BLANKS.sub(" ", text).strip(" \0")
    return text if case_sensitive else text.lower()


def is_answer(span: str, blank_matches: bool) -> bool:
    """Whether there is anything to look for; one system trims ASCII blanks only before it asks."""
    return bool(span.strip(_ASCII_BLANKS) if blank_matches else even(span, True))


def holding(
    spans: Sequence[str], texts: Sequence[str | None], starts: Ints, stops: Ints, case_sensitive: bool
) -> Pairs:
    """Entries whose text holds the answer of their sample: of each sample the first, as no metric asks for more."""
    needles = [even(span, case_sensitive) for span in spans]
    done = [False] * len(spans)

    def found(entry: int, gold: int) -> bool:
        text = texts[entry]
        if done[gold] or not text:
            return False
        text = even(text, case_sensitive)
        done[gold] = bool(text) and needles[gold] in text
        return done[gold]

    return _pairs(len(texts), starts, stops, lambda entry: lambda gold: found(entry, gold))


def pieces_of(originals: Sequence[str], chunks: Sequence[str], starts: Ints, stops: Ints) -> Pairs:
    """Entries that are a chunk of a gold text, by REMem's rule."""

    def matcher(entry: int) -> Callable[[int], bool]:
        pieces = chunk_pieces(chunks[entry])
        return lambda gold: any(piece in originals[gold] for piece in pieces)

    return _pairs(len(chunks), starts, stops, matcher)


def chunk_pieces(chunk: str) -> tuple[str, str]:
    """What of a chunk its original must hold: either of the two.

    A first line with the date goes. Of a turn of conversation what counts is the piece between the first and the second
    ": ", in the chunk or in its JSON: the latter keeps the closing quote where there is no second one.
    """
    if chunk.startswith("Date: "):
        chunk = chunk.partition("\n")[2]
    spelled = json.dumps(chunk)
    if chunk.startswith(_SPEAKERS):
        return chunk.split(": ", 2)[1], spelled.split(": ", 2)[1]
    return chunk, spelled


def alike(golds: Sequence[str], texts: Sequence[str], starts: Ints, stops: Ints, threshold: float) -> Pairs:
    """Entries whose text and a gold text have a partial ratio of at least the threshold."""
    golds, texts = [text[:LONGEST] for text in golds], [text[:LONGEST] for text in texts]
    counts = stops - starts
    ends = np.cumsum(counts)
    found: list[Pairs] = []
    first = 0
    while first < len(texts):
        # Whole entries, as many as make a batch of pairs, one at least.
        done = int(ends[first] - counts[first])
        last = max(first + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, side="right")))
        entry = np.repeat(np.arange(first, last), counts[first:last])
        gold = starts[entry] + np.arange(len(entry)) - (ends[entry] - counts[entry] - done)
        near = _ratios([golds[i] for i in gold.tolist()], [texts[i] for i in entry.tolist()], threshold) >= threshold
        found.append((entry[near], gold[near]))
        first = last
    return _joined(found)


def _ratios(golds: list[str], texts: list[str], threshold: float) -> np.ndarray:
    # The cutoff lets it give up early: it answers 0 for what cannot reach the threshold.
    ratios = process.cpdist(golds, texts, scorer=fuzz.partial_ratio, score_cutoff=threshold, dtype=np.float64)
    return np.asarray(ratios)


def _pairs(entries: int, starts: Ints, stops: Ints, matcher: Callable[[int], Callable[[int], bool]]) -> Pairs:
    def found() -> Iterator[tuple[int, int]]:
        for entry, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            if start < stop:
                matches = matcher(entry)
                yield from ((entry, gold) for gold in range(start, stop) if matches(gold))

    both = np.array(list(found()), np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _joined(parts: list[Pairs]) -> Pairs:
    nothing = np.zeros(0, np.int64)
    entries, golds = zip(*parts, strict=True) if parts else ((nothing,), (nothing,))
    return np.concatenate(entries), np.concatenate(golds)
