"""Worker processes of the local engine, and what happens when one is lost.

Beam notices a dead worker in the thread that waits for its process, and tells nobody: depending on the moment the main
thread fails soon or waits for ever. Here the thread's last words end the run.
"""

import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .interrupts import give_up

_LOST = re.compile(r"Worker subprocess exited with return code (-?\d+)")
# A name that the command's log filter knows: said under --debug only, because the failure is told once anyway.
_log = logging.getLogger("apache_beam.runners.worker.lost")


@contextmanager
def lost_workers_end_the_run() -> Iterator[None]:
    """While inside, a worker process that dies ends the command with exit 1 and a message."""
    before = threading.excepthook
    threading.excepthook = _last_words
    try:
        yield
    finally:
        threading.excepthook = before


def _last_words(ended: threading.ExceptHookArgs) -> None:
    lost = _LOST.search(str(ended.exc_value))
    if lost:
        give_up(f"{_how(int(lost[1]))}; nothing was published")
    _log.error("thread %s ended", ended.thread and ended.thread.name, exc_info=ended.exc_value)


def _how(code: int) -> str:
    """A shell stands between us and the worker, and says 128 + n for a child that signal n killed."""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"a worker process ended with exit code {code}"
    cause = " (often the machine is out of memory: give it more, or fewer workers)" if name == "SIGKILL" else ""
    return f"a worker process was killed by {name}{cause}"
