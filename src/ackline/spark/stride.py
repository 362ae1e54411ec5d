"""How many jobs to ask a store for at once, when nobody knows how large they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackline.job import Record

LARGE_JOB = 1 << 20
"""Bytes that a job is taken to have before any was seen."""

FIRST, GROWTH = 16, 4
"""Few at first, then several times as many, if jobs are as small as they mostly are."""


class Stride:
    """Judges by the jobs that came last how many the next ones may be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._reach = FIRST
        self._each = LARGE_JOB

    def next(self, room: int) -> int:
        """About as many as fit into so many bytes, at least one."""
        return max(1, min(self._most, self._reach, room // self._each))

    def saw(self, jobs: Sequence[Record]) -> int:
        """Take note of jobs that have come; returns their bytes."""
        size = sum(map(size_of, jobs))
        if jobs:
            self._each = max(1, size // len(jobs))
            self._reach = min(self._most, self._reach * GROWTH)
        return size


def fitting(jobs: Sequence[Record], room: int) -> int:
    """How many of these jobs it takes to fill so many bytes; the last may go beyond."""
    for number, job in enumerate(jobs):
        if room <= 0:
            return number
        room -= size_of(job)
    return len(jobs)


def pieces(jobs: Sequence[Record], room: int) -> Iterator[Sequence[Record]]:
    """Jobs in pieces of so many bytes, about: those that came may be larger than was judged."""
    while jobs:
        count = fitting(jobs, room)
        yield jobs[:count]
        jobs = jobs[count:]


def size_of(job: Record) -> int:
    """What a job takes in memory, but for what is always small."""
    return len(job.payload) + len(job.result or b"")
