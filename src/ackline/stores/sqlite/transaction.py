"""Transactions, through which the store's operations write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import apsw

from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.connection import Execute

JOB_NUMBER, BATCH_NUMBER = 0, -1
"""The slots that count the numbers of jobs and of batches of the journal."""

T = TypeVar("T")


class Numbers:
    """The numbers of jobs and of batches of the journal, each given once and in order."""

    __slots__ = ("_batch_written", "_job_written", "batch", "job")

    def __init__(self, job: int, batch: int) -> None:
        self._job_written, self._batch_written = job, batch
        self.job = job
        """The last number that a job was given."""
        self.batch = batch

    def next_jobs(self, count: int) -> int:
        """Numbers for so many jobs; returns the first."""
        first = self.job + 1
        self.job += count
        return first

    def next_batch(self) -> int:
        """A number for a batch of the journal."""
        self.batch += 1
        return self.batch

    def shifts(self) -> list[tuple[int, int]]:
        """How many were given since the last call, and the slot that counts them."""
        jobs, batches = self.job - self._job_written, self.batch - self._batch_written
        self._job_written, self._batch_written = self.job, self.batch
        return [(jobs, JOB_NUMBER), (batches, BATCH_NUMBER)]


class Transaction:
    """A transaction under way; the listeners noted in `wakes` are woken after the commit."""

    __slots__ = ("connection", "execute", "executemany", "numbers", "wakes")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute: Execute = connection.execute
        self.executemany: Execute = connection.executemany
        self.wakes: set[tuple[Topic, QueueKey]] = set()
        self.numbers: Numbers | None = None
        """Read with the first queue that the transaction looks up."""

    def wake(self, queue: QueueKey, *topics: Topic) -> None:
        """Wake this queue's listeners once the transaction is committed."""
        for topic in topics:
            self.wakes.add((topic, queue))


Operation = Callable[[Transaction], T]
