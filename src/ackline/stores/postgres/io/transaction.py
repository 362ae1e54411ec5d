"""One transaction: its statements, journal entries and counts, and the listeners to wake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import psycopg

from ackline.core.events import Entry
from ackline.core.job import QueueKey, State
from ackline.stores.contract import Topic
from ackline.stores.postgres.io.pipeline import NO_VALUES, Ints, Row
from ackline.stores.shared.apply import topics_to_notify
from ackline.stores.shared.journal_batches import pack_entries
from ackline.stores.shared.record_encoding import STATE_CODES, STATES_BY_CODE

EVENTS_INDEX = len(STATES_BY_CODE)
"""The index of the number of events, behind the counts of the states."""


SEND_EARLY_FROM = 50
"""From this many rows on, it pays to send a statement before the next ones are known."""


class RetryTransaction(Exception):
    """Raised if another transaction was quicker: the whole transaction has to run again."""


class QueueChanges:
    """What a transaction has changed in one queue: its journal entries and its counts."""

    __slots__ = ("count_changes", "entries", "if_inserted", "key", "num")

    def __init__(self, key: QueueKey, num: int) -> None:
        self.key = key
        self.num = num
        self.entries: list[Entry] = []
        self.if_inserted = False
        """Whether they count only if the server has found all jobs of `insert_new` to be new."""
        self.count_changes = [0] * len(STATES_BY_CODE)


class PendingRows(Protocol):
    """A statement that was sent; its rows are waited for when they are fetched."""

    def fetchall(self) -> list[Row]: ...


class Sender(Protocol):
    """What takes statements to the server."""

    @property
    def connection(self) -> psycopg.Connection[Any]: ...

    def send(self, name: str, values: Mapping[str, Any]) -> PendingRows: ...

    def send_early(self) -> None: ...


class Transaction:
    """A transaction under way. Answers are waited for only when needed, so round trips are few."""

    is_borrowed = False
    """Whether it is a caller's own, which may stay open for long."""

    def __init__(self, sender: Sender, clock: float | None) -> None:
        self.clock = clock
        self.now = 0.0
        self.created_queue = False
        """Whether it has made a queue or a line, which others cannot see yet."""
        self.wakeups: set[tuple[Topic, QueueKey]] = set()
        self.notify_if_claimed = False
        """Whether it is news only if a `claim_jobs` of this transaction took any jobs."""
        self.added_positions: dict[tuple[int, int], tuple[float, int]] = {}
        """Line and lane → the first place in it where this transaction has put a job."""
        self.on_commit: list[Callable[[], None]] = []
        self._sender = sender
        self.connection = sender.connection
        self._changes: dict[int, QueueChanges] = {}

    def send(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> PendingRows:
        """Send a statement, without waiting for its answer."""
        return self._sender.send(name, values)

    def send_early(self, rows: int) -> None:
        """If there are many rows, let the server begin, though nobody waits for its answer yet."""
        if rows >= SEND_EARLY_FROM:
            self._sender.send_early()

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

    def change_counts(
        self, num: int, source: State | None, to: State | None, count: int = 1
    ) -> None:
        """Count jobs of a queue out of one state and into another."""
        shifts = self._changes[num].count_changes
        if source is not None:
            shifts[STATE_CODES[source]] -= count
        if to is not None:
            shifts[STATE_CODES[to]] += count

    def flush(self) -> None:
        """Write the journal and the counts."""
        for changes in self._changes.values():
            if changes.entries:
                values = {
                    "queue": changes.num,
                    "at": self.now or self.clock,
                    "size": len(changes.entries),
                    "entries": pack_entries(changes.entries),
                    "states": Ints(changes.count_changes),
                    "if_inserted": int(changes.if_inserted),
                }
                self.send("append_journal", values)
                self._add_wakeups(changes)

    def _add_wakeups(self, changes: QueueChanges) -> None:
        self.wakeups.update((topic, changes.key) for topic in topics_to_notify(changes.entries))
