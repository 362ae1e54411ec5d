"""How many jobs or events to read at once, judged by the sizes of those before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ackline.core.job import Record
from ackline.stores.contract import Page

T = TypeVar("T")

MAX_BATCH = 1000
"""Jobs or keys per round trip."""

PAGE_BYTES = 16 << 20
"""Approximate size of a page in memory."""

ASSUMED_ROW_BYTES = 1 << 20
"""Assumed size of a row before any has been read."""

FIRST_PAGE, PAGE_GROWTH = 16, 4
"""Rows of the first page; how much larger each next page may be if rows are small."""


class AdaptivePageSize:
    """Decides how many rows to read next by the sizes of the last ones."""

    def __init__(
        self, max_rows: int, first: int = FIRST_PAGE, row_bytes: int = ASSUMED_ROW_BYTES
    ) -> None:
        self._max_rows = max_rows
        self._next_rows = first
        self._row_bytes = row_bytes

    def next(self, max_bytes: int) -> int:
        """About as many rows as fit into `max_bytes`, at least one."""
        return max(1, min(self._max_rows, self._next_rows, max_bytes // self._row_bytes))

    def observe_jobs(self, jobs: Sequence[Record]) -> int:
        """Record the sizes of jobs that were read; returns their bytes."""
        size = sum(map(job_bytes, jobs))
        self.observe(len(jobs), size)
        return size

    def observe(self, count: int, size: int) -> None:
        """Record that `count` rows with a total of `size` bytes were read."""
        if count:
            self._row_bytes = max(1, size // count)
            self._next_rows = min(self._max_rows, self._next_rows * PAGE_GROWTH)


def batched(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Slices of as many items as go into one round trip."""
    for start in range(0, len(items), MAX_BATCH):
        yield items[start : start + MAX_BATCH]


def read_pages(read: Callable[[str | None, int], Page], max_rows: int) -> Iterator[list[Record]]:
    """All pages of a list of jobs; `read` gets a cursor and how many to read."""
    page_size, cursor = AdaptivePageSize(max_rows), None
    while True:
        page = read(cursor, page_size.next(PAGE_BYTES))
        page_size.observe_jobs(page.jobs)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def count_fitting(jobs: Sequence[Record], max_bytes: int) -> int:
    """How many of these jobs it takes to fill `max_bytes`; the last may exceed it."""
    for number, job in enumerate(jobs):
        if max_bytes <= 0:
            return number
        max_bytes -= job_bytes(job)
    return len(jobs)


def split_by_bytes(jobs: Sequence[Record], max_bytes: int) -> Iterator[Sequence[Record]]:
    """Jobs in chunks of about `max_bytes`: they may be larger than expected."""
    while jobs:
        count = count_fitting(jobs, max_bytes)
        yield jobs[:count]
        jobs = jobs[count:]


def job_bytes(job: Record) -> int:
    """The approximate size of a job in memory."""
    size = len(job.payload) + len(job.result or b"")
    if headers := job.options.headers:
        size += sum(map(len, headers)) + sum(map(len, headers.values()))
    return size + sum(len(ended.traceback) for ended in job.history)
