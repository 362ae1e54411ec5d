"""Transactions, through which the store's operations write."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import apsw

from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.connection import Execute

JOB_NUMBER, BATCH_NUMBER = 0, -1
"""The slots that count the numbers of jobs and of batches of the journal."""

T = TypeVar("T")
Item = TypeVar("Item")


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


class Together(Generic[Item, T]):
    """An operation that is cheaper when done once for all concurrent calls of the same key."""

    __slots__ = ("item", "key", "run")

    def __init__(
        self, key: Hashable, item: Item, run: Callable[[Transaction, list[Item]], list[T]]
    ) -> None:
        self.key = key
        self.item = item
        self.run = run

    def __call__(self, tx: Transaction) -> T:
        return self.run(tx, [self.item])[0]


def run_all(tx: Transaction, operations: Sequence[Operation[Any]]) -> list[Any]:
    """Run the operations of concurrent callers, in any order: none depends on another."""
    if len(operations) == 1:
        return [operations[0](tx)]
    answers: list[Any] = [None] * len(operations)
    shared: dict[Hashable, list[int]] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, Together):
            shared.setdefault(operation.key, []).append(index)
        else:
            answers[index] = operation(tx)
    for indexes in shared.values():
        alike: list[Any] = [operations[index] for index in indexes]
        shared_answers = alike[0].run(tx, [operation.item for operation in alike])
        for index, answer in zip(indexes, shared_answers, strict=True):
            answers[index] = answer
    return answers


def split(answers: list[T], batches: Sequence[Sequence[Any]]) -> list[list[T]]:
    """Give each batch its part of the answers."""
    parts, start = [], 0
    for batch in batches:
        parts.append(answers[start : start + len(batch)])
        start += len(batch)
    return parts
