"""Read ahead: the next blocks are made ready on another thread while this one works on the last.

Readers spend their time in C that lets other threads run (decompression, Parquet decoding), so the second core of a
machine is put to use without any part of the job becoming concurrent: order, errors and end come through unchanged.
"""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_DEPTH = 2  # blocks waiting; more would hold memory and gain nothing


class _End:
    """The source is done, or failed."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


@contextmanager
def ahead(source: Iterator[T]) -> Iterator[Iterator[T]]:
    """Iterate over `source` while a thread runs it ahead. Leaving early stops the thread at its next item."""
    waiting: queue.Queue[T | _End] = queue.Queue(_DEPTH)
    stopped = threading.Event()

    def fill() -> None:
        error: BaseException | None = None
        try:
            for item in source:
                if not _put(waiting, item, stopped):
                    return
        except BaseException as caught:  # noqa: BLE001 - raised again on the reading side, whatever it is
            error = caught
        _put(waiting, _End(error), stopped)

    thread = threading.Thread(target=fill, name="rankbeam-read-ahead", daemon=True)
    thread.start()
    try:
        yield _drain(waiting)
    finally:
        stopped.set()
        thread.join()


def _drain(waiting: "queue.Queue[T | _End]") -> Iterator[T]:
    while True:
        item = waiting.get()
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return
        yield item


def _put(waiting: "queue.Queue[T | _End]", item: "T | _End", stopped: threading.Event) -> bool:
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False
