"""A transaction: its statements, journal entries, changed counts and wake-ups."""

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
"""The index of the number of events, after the counts of the states."""


SEND_EARLY_FROM = 50
"""A statement with this many rows or more is sent before the next ones are prepared."""


class RetryTransaction(Exception):
    """Raised if another transaction was faster, so that this one has to run again."""


class QueueChanges:
    """The journal entries and the changed counts of one queue in a transaction."""

    __slots__ = ("count_changes", "entries", "if_inserted", "key", "num")

    def __init__(self, key: QueueKey, num: int) -> None:
        self.key = key
        self.num = num
        self.entries: list[Entry] = []
        self.if_inserted = False
        """Whether they are written only if `insert_one` or `insert_new` has inserted the jobs."""
        self.count_changes = [0] * len(STATES_BY_CODE)


class PendingRows(Protocol):
    """The rows of a statement that was sent; `fetchall` waits for them."""

    def fetchall(self) -> list[Row]: ...


class Sender(Protocol):
    """Sends statements to the server."""

    @property
    def connection(self) -> psycopg.Connection[Any]: ...

    def send(self, name: str, values: Mapping[str, Any]) -> PendingRows: ...

    def send_early(self) -> None: ...


class Transaction:
    """A running transaction; it waits for rows only when they are needed."""

    is_borrowed = False
    """Whether it runs in a user's transaction, which may stay open for long."""

    def __init__(self, sender: Sender, clock: float | None) -> None:
        self.clock = clock
        self.now = 0.0
        self.created_queue = False
        """Whether it has created a queue or a kind, which others cannot see yet."""
        self.wakeups: set[tuple[Topic, QueueKey]] = set()
        self.notify_if_claimed = False
        """Whether listeners are notified only if `claim_jobs` has claimed any jobs."""
        self.added_positions: dict[tuple[int, int], tuple[float, int]] = {}
        """Kind and lane → the first position where this transaction has added a job."""
        self.on_commit: list[Callable[[], None]] = []
        self._sender = sender
        self.connection = sender.connection
        self._changes: dict[int, QueueChanges] = {}

    def send(self, name: str, values: Mapping[str, Any] = NO_VALUES) -> PendingRows:
        """Send a statement, without waiting for its rows."""
        return self._sender.send(name, values)

    def send_early(self, rows: int) -> None:
        """If there are many rows, let the server start on them now."""
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
        """The changes of a queue; queues are written in the order of these calls."""
        changes = self._changes.get(num)
        if changes is None:
            changes = self._changes[num] = QueueChanges(key, num)
        return changes

    def change_counts(
        self, num: int, source: State | None, to: State | None, count: int = 1
    ) -> None:
        """Record that jobs of a queue have left one state for another."""
        counts = self._changes[num].count_changes
        if source is not None:
            counts[STATE_CODES[source]] -= count
        if to is not None:
            counts[STATE_CODES[to]] += count

    def flush(self) -> None:
        """Write the journal entries and the changed counts."""
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
