"""How many jobs or events to ask a store for at once, though their sizes are not known before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ackline.core.job import Record
from ackline.stores.contract import Page

T = TypeVar("T")

MAX_BATCH = 1000
"""Jobs, or keys, per round trip, at most."""

PAGE_BYTES = 16 << 20
"""About how many bytes of memory a page may take."""

ASSUMED_ROW_BYTES = 1 << 20
"""Bytes that a row is assumed to have before any was seen."""

FIRST_PAGE, GROWTH = 16, 4
"""Ask for few at first, then for several times as many, if they turn out as small as usual."""


class AdaptivePageSize:
    """Decides by the sizes of the last rows how many to ask for next."""

    def __init__(self, most: int, first: int = FIRST_PAGE, each: int = ASSUMED_ROW_BYTES) -> None:
        self._most = most
        self._reach = first
        self._each = each

    def next(self, room: int) -> int:
        """About as many as fit into `room` bytes, at least one."""
        return max(1, min(self._most, self._reach, room // self._each))

    def observe_jobs(self, jobs: Sequence[Record]) -> int:
        """Take note of jobs that have come; returns their bytes."""
        size = sum(map(job_bytes, jobs))
        self.observe(len(jobs), size)
        return size

    def observe(self, count: int, size: int) -> None:
        """Take note that `count` rows have come, with `size` bytes together."""
        if count:
            self._each = max(1, size // count)
            self._reach = min(self._most, self._reach * GROWTH)


def batched(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Slices of as many items as go into one round trip."""
    for start in range(0, len(items), MAX_BATCH):
        yield items[start : start + MAX_BATCH]


def read_pages(read: Callable[[str | None, int], Page], most: int) -> Iterator[list[Record]]:
    """A list of jobs from its beginning to its end; `read` gets a cursor and how many to read."""
    stride, cursor = AdaptivePageSize(most), None
    while True:
        page = read(cursor, stride.next(PAGE_BYTES))
        stride.observe_jobs(page.jobs)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def count_fitting(jobs: Sequence[Record], room: int) -> int:
    """How many of these jobs it takes to fill `room` bytes; the last may go beyond."""
    for number, job in enumerate(jobs):
        if room <= 0:
            return number
        room -= job_bytes(job)
    return len(jobs)


def split_by_bytes(jobs: Sequence[Record], room: int) -> Iterator[Sequence[Record]]:
    """Jobs in pieces of about `room` bytes: those that came may be larger than expected."""
    while jobs:
        count = count_fitting(jobs, room)
        yield jobs[:count]
        jobs = jobs[count:]


def job_bytes(job: Record) -> int:
    """The bytes that a job takes in memory, without what is always small."""
    size = len(job.payload) + len(job.result or b"")
    if headers := job.options.headers:
        size += sum(map(len, headers)) + sum(map(len, headers.values()))
    return size + sum(len(ended.traceback) for ended in job.history)
