"""Counts the syncs before each answer to an enqueue.

`python -m tests.harness.faults.sync_counts URL` enqueues one job after the other, and prints
`before N` and `answered N`, so that a tracer sees the syncs in between. SIGKILL cannot show this,
because the operating system keeps what a killed process has written.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable

from ackline.queues import open as open_queues
from tests.harness.faults.crash_points import WatchedFiles

JOBS = 10

TRACE = ("strace", "-f", "-e", "trace=write,fsync,fdatasync", "-s", "32")
"""The prefix of a command that strace traces."""

_MARK = re.compile(r'write\(1, "(before|answered) (\d+)')


def main() -> None:
    """Enqueue, and print before and after each call."""
    with open_queues(sys.argv[1]) as queues:
        queue = queues["durability"]
        for number in range(JOBS):
            os.write(1, b"before %d\n" % number)
            queue.enqueue(number)
            os.write(1, b"answered %d\n" % number)


def syncs_in_trace(lines: Iterable[str]) -> list[int]:
    """For each job, the number of syncs that the kernel has done before the answer."""
    counts: Counter[int] = Counter()
    open_job: int | None = None
    for line in lines:
        if mark := _MARK.search(line):
            number = int(mark[2])
            open_job = number if mark[1] == "before" else None
        elif open_job is not None and "sync(" in line:
            counts[open_job] += 1
    return [counts[number] for number in range(JOBS)]


def syncs_below_sqlite(url: str) -> list[int]:
    """For each job, the number of WAL syncs that SQLite has requested before the answer."""
    synced: Counter[str] = Counter()

    def watch(file: str, operation: str) -> bool:
        synced[f"{file}.{operation}"] += 1
        return False

    files = WatchedFiles(watch)
    found = []
    try:
        with open_queues(url) as queues:
            for number in range(JOBS):
                before = synced["wal.sync"]
                queues["durability"].enqueue(number)
                found.append(synced["wal.sync"] - before)
    finally:
        files.unregister()
    return found


if __name__ == "__main__":
    main()
