"""SIGINT and SIGTERM end a run within seconds, with the exit code a shell expects, and nothing visible.

Raising from the handler is not enough: a step that runs in this thread is inside Beam, which turns *any* exception,
KeyboardInterrupt too, into a failure of the step. So the signal is remembered, and asked for once something surfaces.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

GRACE_SECONDS = 5.0


class Interrupted(BaseException):
    """Raised where the signal found the program. Not an Exception: code that tries things must not catch it."""


class Interrupts:
    """What was received. `exit_code` is 130 for SIGINT, 143 for SIGTERM, None while there was none."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.words = "stopped"
        self.handled = False
        self._failed = False
        self._last_resort: threading.Timer | None = None
        self._held: list[int] | None = None

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        if self._held is not None:
            self._held.append(signum)
            return
        if self.exit_code is not None:
            os._exit(self.exit_code)  # asked twice: no more clearing up
        self.exit_code = 1 if self._failed else 128 + signum
        self._last_resort = threading.Timer(GRACE_SECONDS, self._leave)
        self._last_resort.daemon = True
        self._last_resort.start()
        raise Interrupted(signal.Signals(signum).name)

    def _leave(self) -> None:
        """Something holds the main thread; the command still ends, and says why."""
        sys.stderr.write(f"rankbeam: {self.words}\n")
        sys.stderr.flush()
        os._exit(self.exit_code or 1)


_current: Interrupts | None = None


@contextmanager
def point_of_no_return() -> Iterator[None]:
    """Hold signals back while a run becomes visible.

    If the block ends well the run is there for all to see, and a command that then said "stopped" would be asked to run
    again; so from there on signals find nothing left to stop. If it fails, they count as ever.
    """
    found = _current
    if found is None:
        yield
        return
    found._held = []
    try:
        yield
    except BaseException:
        held, found._held = found._held, None
        if held:
            found._receive(held[0], None)
        raise


def give_up(message: str) -> None:
    """End the command with exit 1 from any thread, as a signal would, while nothing is published yet.

    For what only another thread can notice and the main one would wait for in vain.
    """
    found = _current
    if found is None or not found.handled or found.exit_code is not None or found._held is not None or found._failed:
        return
    found.words, found._failed = message, True
    # A real signal: it wakes a main thread that waits for a lock, which Python's own interrupt_main does not.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Take both signals while inside. In a thread other than the main one Python allows no handlers: none then."""
    global _current
    received = _current = Interrupts()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for signum in (signal.SIGINT, signal.SIGTERM):
            before[signum] = signal.signal(signum, received._receive)
        received.handled = True
    try:
        yield received
    finally:
        _current = None
        for signum, handler in before.items():
            signal.signal(signum, handler)
        if received._last_resort is not None:
            received._last_resort.cancel()
