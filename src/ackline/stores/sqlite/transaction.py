"""What an operation of the store writes through."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import apsw

from ackline.job import QueueKey
from ackline.stores.base import Topic
from ackline.stores.sqlite.connection import Execute

T = TypeVar("T")
Item = TypeVar("Item")


class Transaction:
    """A transaction under way; whom to wake is told after the commit."""

    __slots__ = ("connection", "execute", "executemany", "wakes")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute: Execute = connection.execute
        self.executemany: Execute = connection.executemany
        self.wakes: set[tuple[Topic, QueueKey]] = set()

    def wake(self, queue: QueueKey, *topics: Topic) -> None:
        """Tell listeners of this queue, once the transaction is safe."""
        for topic in topics:
            self.wakes.add((topic, queue))


Operation = Callable[[Transaction], T]


class Together(Generic[Item, T]):
    """An operation that is cheaper when done once for all who want the same at the same time."""

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
    """Run operations of callers that do not wait for each other, so in any order."""
    answers: list[Any] = [None] * len(operations)
    shared: dict[Hashable, list[int]] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, Together):
            shared.setdefault(operation.key, []).append(index)
        else:
            answers[index] = operation(tx)
    for indexes in shared.values():
        alike: list[Any] = [operations[index] for index in indexes]
        found = alike[0].run(tx, [one.item for one in alike])
        for index, answer in zip(indexes, found, strict=True):
            answers[index] = answer
    return answers


def split(answers: list[T], batches: Sequence[Sequence[Any]]) -> list[list[T]]:
    """Give each batch its part of the answers."""
    parts, start = [], 0
    for batch in batches:
        parts.append(answers[start : start + len(batch)])
        start += len(batch)
    return parts
