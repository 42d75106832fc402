"""The nearest known word, for every place where a user can mistype one."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely meant, or None when nothing is near."""
    by_folded = {_folded(name): name for name in known}
    close = difflib.get_close_matches(_folded(word), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error line: the near word if there is one, else all that is known."""
    names = list(known)
    near = nearest(word, names)
    return f"; did you mean {near}?" if near else f"; known: {', '.join(names)}"


def _folded(word: str) -> str:
    return word.lower().replace("_", "-")
