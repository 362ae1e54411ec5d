"""One transaction: its statements, journal entries and counts, and the listeners to wake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import psycopg

from ackline.events import Entry
from ackline.job import QueueKey, State
from ackline.stores.base import Topic
from ackline.stores.postgres.pipeline import NO_VALUES, Ints, Row
from ackline.stores.shared.apply import topics_of
from ackline.stores.shared.packed import pack
from ackline.stores.shared.records import CODE, STATES

EVENTS = len(STATES)
"""The index of the number of events, behind the counts of the states."""


MANY = 50
"""From this many rows on, it pays to send a statement before the next ones are known."""


class Again(Exception):
    """Raised if another transaction was quicker: the whole transaction has to run again."""


class QueueChanges:
    """What a transaction has changed in one queue: its journal entries and its counts."""

    __slots__ = ("blind", "entries", "key", "num", "shifts")

    def __init__(self, key: QueueKey, num: int) -> None:
        self.key = key
        self.num = num
        self.entries: list[Entry] = []
        self.blind = False
        """Whether they count only if the server has found all jobs of `add_new` to be new."""
        self.shifts = [0] * len(STATES)


class Sent(Protocol):
    """A statement that was sent; its rows are waited for when they are fetched."""

    def fetchall(self) -> list[Row]: ...


class Sender(Protocol):
    """What takes statements to the server."""

    @property
    def connection(self) -> psycopg.Connection[Any]: ...

    def send(self, name: str, values: Mapping[str, Any]) -> Sent: ...

    def push(self) -> None: ...


class Transaction:
    """A transaction under way. Answers are waited for only when needed, so round trips are few."""

    callers = False
    """Whether it is a caller's own, which may stay open for long."""

    def __init__(self, sender: Sender, clock: float | None) -> None:
        self.clock = clock
        self.now = 0.0
        self.made = False
        """Whether it has made a queue or a line, which others cannot see yet."""
        self.news: set[tuple[Topic, QueueKey]] = set()
        self.only_if_took = False
        """Whether it is news only if a `take` of this transaction took any jobs."""
        self.places: dict[tuple[int, int], tuple[float, int]] = {}
        """Line and lane → the first place in it where this transaction has put a job."""
        self.committed: list[Callable[[], None]] = []
        self._sender = sender
        self.connection = sender.connection
        self._changes: dict[int, QueueChanges] = {}

    def send(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> Sent:
        """Send a statement, without waiting for its answer."""
        return self._sender.send(name, values)

    def push(self, rows: int) -> None:
        """If there are many rows, let the server begin, though nobody waits for its answer yet."""
        if rows >= MANY:
            self._sender.push()

    def rows(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> list[Row]:
        """Send a statement and wait for its rows."""
        return self.send(name, values).fetchall()

    def next_token(self, above: int) -> int:
        """A token above a given one."""
        [(token,)] = self.rows("next_token", {"above": above})
        return int(token)

    def changes_of(self, key: QueueKey, num: int) -> QueueChanges:
        """The changes of a queue; they are written in the order of the first such calls."""
        changes = self._changes.get(num)
        if changes is None:
            changes = self._changes[num] = QueueChanges(key, num)
        return changes

    def shift(self, num: int, source: State | None, to: State | None, count: int = 1) -> None:
        """Count jobs of a queue out of one state and into another."""
        shifts = self._changes[num].shifts
        if source is not None:
            shifts[CODE[source]] -= count
        if to is not None:
            shifts[CODE[to]] += count

    def flush(self) -> None:
        """Write the journal and the counts."""
        for changes in self._changes.values():
            if changes.entries:
                values = {
                    "queue": changes.num,
                    "at": self.now or self.clock,
                    "size": len(changes.entries),
                    "entries": pack(changes.entries),
                    "states": Ints(changes.shifts),
                    "blind": int(changes.blind),
                }
                self.send("tell", values)
                self._add_news(changes)

    def _add_news(self, changes: QueueChanges) -> None:
        self.news.update((topic, changes.key) for topic in topics_of(changes.entries))
