"""Text from the data, made harmless for the place that shows it. It stays readable, and it stays text."""

import re
import unicodedata

# Control and format characters, which move cursors, recolour terminals and reorder lines; separators that break lines;
# and what has no agreed look at all.
_ACTIVE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|~$])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    """For a terminal: every character that is not simply drawn is spelled out as `\\x1b` or `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) if unicodedata.category(char) in _ACTIVE else char for char in text)


def markdown(text: str) -> str:
    """For a Markdown cell: no table bar, no HTML, no link, no emphasis comes out of it."""
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKDOWN.sub(r"\\\1", text)
    # Bare addresses become links in some dialects without any mark-up.
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")


def spreadsheet(text: str) -> str:
    """For a CSV cell: a spreadsheet must not take it for a formula."""
    return "'" + plain(text) if text.startswith(_FORMULA) else plain(text)


def html_safe_json(document: str) -> str:
    """For JSON that may end up inside a page: the same document, with no `<`, `>` or `&` in it."""
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def clipped(text: str, width: int) -> str:
    """At most `width` columns of a terminal, the cut marked."""
    if columns(text) <= width:
        return text
    kept = ""
    for char in text:
        if columns(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


def columns(text: str) -> int:
    """Columns that a terminal gives to a text: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _spelled(char: str) -> str:
    code = ord(char)
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )
