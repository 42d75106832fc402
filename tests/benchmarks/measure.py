"""Runs one command and writes down what it cost: `measure.py COST.json LOG COMMAND...`.

A process of its own, and a small one, because Linux lets a child start with its parent's peak: ru_maxrss survives
exec, so a parent that holds 500 MB would give every child a peak of at least that.
"""

import json
import os
import sys
import time


def main(cost: str, log: str, *command: str) -> int:
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    began = time.perf_counter()
    child = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, sink, 1), (os.POSIX_SPAWN_DUP2, sink, 2)],
    )
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - began
    # CPU covers the command and the children it waited for; the peak is that of its largest single process.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with open(cost, "w") as file:
        json.dump({"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak": peak}, file)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(abs(main(*sys.argv[1:])))
