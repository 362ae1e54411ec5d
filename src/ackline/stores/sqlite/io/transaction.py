"""What operations write through: one transaction after the other on the same connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from ackline.core.job import QueueKey
from ackline.stores.contract import Topic
from ackline.stores.sqlite.io.connection import Execute

T = TypeVar("T")

Wakeups = set[tuple[Topic, QueueKey]]
"""The topics and queues whose listeners are woken."""

CACHE_LIMIT = 1000
"""The most queues that are cached from one transaction to the next."""


class Transaction:
    """The current transaction, with what is cached of the file for as long as nobody else writes.

    So a process that writes alone need not look up its queues again and again.
    """

    __slots__ = (
        "_version", "connection", "execute", "executemany", "last_batch", "last_job", "queues",
        "wakeups", "written_batch",
    )  # fmt: skip

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute: Execute = connection.execute
        self.executemany: Execute = connection.executemany
        self.wakeups: Wakeups = set()
        """What to notify after the commit."""
        self.queues: dict[QueueKey, Any] = {}
        """Cached queues, in whatever form the operations keep them."""
        self.last_job: int | None = None
        """The last number given to a job; None until the first queue is looked up."""
        self.last_batch = 0
        """The last number given to a journal batch."""
        self.written_batch = 0
        """The last number of a journal batch that is in the file."""
        self._version = -1
        """The version of the file after the last commit; -1 while a transaction is open."""

    def begin(self) -> None:
        """Wait for SQLite's write lock."""
        self.execute("BEGIN IMMEDIATE")
        self.wakeups = set()
        if self._version != self.connection.data_version() or len(self.queues) > CACHE_LIMIT:
            self.queues.clear()
            self.last_job = None
        self._version = -1

    def commit(self) -> None:
        """Make it durable."""
        self.execute("COMMIT")
        self._version = self.connection.data_version()

    def run_for_each(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row of values."""
        if len(rows) == 1:
            self.execute(statement, rows[0])  # faster, and most calls enqueue a single job
        else:
            self.executemany(statement, rows)

    def wake_listeners(self, queue: QueueKey, *topics: Topic) -> None:
        """Wake the listeners of this queue once the transaction is committed."""
        for topic in topics:
            self.wakeups.add((topic, queue))


Operation = Callable[[Transaction], T]
