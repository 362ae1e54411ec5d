"""One transaction: its statements, its journal, its counts, and whom it concerns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import psycopg

from ackline.events import Entry
from ackline.job import TERMINAL, QueueKey, State
from ackline.stores.base import Topic
from ackline.stores.packed import pack
from ackline.stores.postgres.arrays import Ints
from ackline.stores.postgres.codes import CODE, STATES
from ackline.stores.postgres.exchange import NO_VALUES, Row

EVENTS = len(STATES)
"""Where the number of events stands behind those of the states."""


MANY = 50
"""Rows from which on it pays to send a statement before the others are known."""


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


class Sent(Protocol):
    """A statement that was sent; its rows are there when they are asked for."""

    def fetchall(self) -> list[Row]: ...


class Sender(Protocol):
    """What takes statements to the server."""

    @property
    def connection(self) -> psycopg.Connection[Any]: ...

    def send(self, name: str, values: Mapping[str, Any]) -> Sent: ...

    def push(self) -> None: ...


class Transaction:
    """Statements are answered when that is asked for, so round trips are few."""

    callers = False
    """Whether it is a caller's own, which may stay open for long."""

    def __init__(self, sender: Sender, clock: float | None) -> None:
        self.clock = clock
        self.now = 0.0
        self.made = False
        """Whether it has made a queue or a line, which others cannot see yet."""
        self.news: set[tuple[Topic, QueueKey]] = set()
        self.places: dict[tuple[int, int], tuple[float, int]] = {}
        """Line and lane → the first place in it that a job came to stand in."""
        self.committed: list[Callable[[], None]] = []
        self._sender = sender
        self.connection = sender.connection
        self._told: dict[int, Told] = {}

    def send(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> Sent:
        """Send a statement, without waiting for its answer."""
        return self._sender.send(name, values)

    def push(self, rows: int) -> None:
        """Let the server begin with so many rows, though nobody waits for its answer yet."""
        if rows >= MANY:
            self._sender.push()

    def rows(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> list[Row]:
        """Send a statement and wait for its rows."""
        return self.send(name, values).fetchall()

    def next_token(self, above: int) -> int:
        """A token above one that was met."""
        [(token,)] = self.rows("next_token", {"above": above})
        return int(token)

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
