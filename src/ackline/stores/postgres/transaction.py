"""One transaction: its statements, its journal, its counts, and whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from psycopg import Cursor

from ackline.events import Entry, pack
from ackline.job import TERMINAL, QueueKey, State
from ackline.stores.base import Topic
from ackline.stores.postgres.arrays import Ints
from ackline.stores.postgres.codes import CODE, STATES
from ackline.stores.postgres.connections import Connection

Row = tuple[Any, ...]

EVENTS = len(STATES)
"""Where the number of events stands behind those of the states."""


class Again(Exception):
    """Somebody else was quicker: the whole transaction is to be run again."""


class Told:
    """What a transaction has to tell of one queue."""

    __slots__ = ("entries", "key", "num", "shifts")

    def __init__(self, key: QueueKey, num: int) -> None:
        self.key = key
        self.num = num
        self.entries: list[Entry] = []
        self.shifts = [0] * len(STATES)


class Transaction:
    """Statements are sent at once and answered when asked for, so round trips are few."""

    def __init__(
        self, connection: Connection, statements: Mapping[str, str], clock: float | None
    ) -> None:
        self.connection = connection
        self.clock = clock
        self.now = 0.0
        self.made = False
        """Whether it has made a queue or a line, which others cannot see yet."""
        self.news: set[tuple[Topic, QueueKey]] = set()
        self.committed: list[Callable[[], None]] = []
        self._statements = statements
        self._told: dict[int, Told] = {}

    def send(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor[Row]:
        """Send a statement; its answer is read from the cursor, whenever."""
        cursor = self.connection.cursor(binary=True)
        return cursor.execute(self._statements[name], values)

    def rows(self, name: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Send a statement and wait for its rows."""
        return self.send(name, values).fetchall()

    def told(self, key: QueueKey, num: int) -> Told:
        """What is to be told of a queue; queues are told of in the order of this call."""
        found = self._told.get(num)
        if found is None:
            found = self._told[num] = Told(key, num)
        return found

    def shift(self, num: int, source: State | None, to: State | None, count: int = 1) -> None:
        """Count jobs of a queue out of one state and into another."""
        shifts = self._told[num].shifts
        if source is not None:
            shifts[CODE[source]] -= count
        if to is not None:
            shifts[CODE[to]] += count

    def flush(self) -> None:
        """Write the journal and the counts."""
        for told in self._told.values():
            if told.entries:
                values = {
                    "queue": told.num,
                    "at": self.now or self.clock,
                    "size": len(told.entries),
                    "entries": pack(told.entries),
                    "states": Ints(told.shifts),
                }
                self.send("tell", values)
                self._concern(told)

    def _concern(self, told: Told) -> None:
        self.news.add(("changes", told.key))
        if any(entry.to is None or entry.to in TERMINAL for entry in told.entries):
            self.news.add(("ends", told.key))
