"""One line on stderr that says the run is alive: records read, rows scored, records rejected, time passed."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TextIO

INTERVAL_SECONDS = 0.5

Snapshot = Callable[[], Mapping[str, int]]


class Progress:
    """While inside, redraw the line about twice a second. Silent when the stream is not a terminal.

    `snapshot` gives the ledger's terms so far. On a cluster the steps count elsewhere, it stays empty, and the line
    shows the time alone rather than zeros that look like a stuck run.
    """

    def __init__(self, snapshot: Snapshot, stream: TextIO | None = None) -> None:
        self._snapshot = snapshot
        self._stream = sys.stderr if stream is None else stream
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._began = 0.0

    def __enter__(self) -> "Progress":
        self._began = time.monotonic()
        if self._stream.isatty():
            self._thread = threading.Thread(target=self._redraw, name="rankbeam-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._write("\r\x1b[K")

    def _redraw(self) -> None:
        while not self._done.wait(INTERVAL_SECONDS):
            self._write("\r\x1b[K" + line(self._snapshot(), time.monotonic() - self._began))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._done.set()  # the terminal is gone; the run need not be


def line(terms: Mapping[str, int], seconds: float) -> str:
    """`12,000 samples, 11,874 outputs read · 9,000 rows scored · 3 rejected · 0:07`"""
    minutes, rest = divmod(int(seconds), 60)
    parts = []
    if terms:
        rejected = sum(n for term, n in terms.items() if ".rejected" in term or ".refused" in term)
        parts = [
            f"{terms.get('samples.read', 0):,} samples, {terms.get('outputs.read', 0):,} outputs read",
            f"{sum(n for term, n in terms.items() if term.startswith('rows.')):,} rows scored",
            f"{rejected:,} rejected",
        ]
    return " · ".join([*parts, f"{minutes}:{rest:02d}"])
