"""Transactions, and the queues that they change: their lines of jobs, counts, journal, groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import apsw

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.events import Entry
from ackline.core.job import QueueKey, State
from ackline.stores.contract import Topic
from ackline.stores.shared.apply import topics_to_notify
from ackline.stores.shared.journal_batches import pack_entries
from ackline.stores.shared.record_encoding import (
    DROPPED_QUEUE,
    STATE_CODES,
    decode_settings,
    encode_settings,
)
from ackline.stores.sqlite.io.connection import Execute
from ackline.stores.sqlite.rows import (
    BATCH_COUNTER,
    JOURNAL,
    PARKED,
    READY,
    Row,
    int_array,
    list_of_state,
)
from ackline.stores.sqlite.sql import sql

T = TypeVar("T")

Wakeups = set[tuple[Topic, QueueKey]]
"""Listeners to be woken."""

CACHE_LIMIT = 1000
"""The most queues, and the most kinds of one, that are kept for the next transaction."""


class Transaction:
    """What operations write through: one transaction after the other on the same connection.

    It keeps the queues it has met for as long as nobody else writes to the file, so that a
    process that writes alone need not look them up again and again.
    """

    __slots__ = (
        "_version", "connection", "execute", "executemany", "last_batch", "last_job", "queues",
        "wakeups", "written_batch",
    )  # fmt: skip

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute: Execute = connection.execute
        self.executemany: Execute = connection.executemany
        self.queues: dict[QueueKey, QueueWriter] = {}
        self.wakeups: Wakeups = set()
        """Whose listeners are woken after the commit."""
        self.last_job: int | None = None
        """The last number that a job was given; None until the first queue is looked up."""
        self.last_batch = 0
        """The last number that a batch of the journal was given."""
        self.written_batch = 0
        self._version = -1
        """Of the file, after the last commit; -1 until the transaction is committed."""

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

    def run_for_each(self, statement: str, rows: Sequence[Row]) -> None:
        """Run a statement for each of these rows of values."""
        if len(rows) == 1:
            self.execute(statement, rows[0])  # quicker, and most callers enqueue one job at a time
        else:
            self.executemany(statement, rows)

    def wake_listeners(self, queue: QueueKey, *topics: Topic) -> None:
        """Wake this queue's listeners once the transaction is committed."""
        for topic in topics:
            self.wakeups.add((topic, queue))


Operation = Callable[[Transaction], T]


class QueueWriter:
    """One queue: its settings, its lines, and how their counts change in this transaction."""

    __slots__ = ("_ready", "_shifts", "dropped", "key", "last_token", "num", "settings", "tx")

    def __init__(
        self, tx: Transaction, key: QueueKey, num: int, settings: bytes, last_token: int
    ) -> None:
        self.tx = tx
        self.key = key
        self.num = num
        self.settings = decode_settings(settings)
        self.dropped = settings == DROPPED_QUEUE
        self.last_token = last_token
        self._ready: dict[str, int] = {}
        self._shifts: dict[int, int] = {}

    # --- settings and tokens ---

    def set_settings(self, settings: QueueSettings) -> None:
        """Replace its settings."""
        self.tx.execute(sql("set_settings"), (encode_settings(settings), self.num))
        self.settings, self.dropped = settings, False

    def drop(self) -> None:
        """Forget the queue, except for its journal."""
        self.tx.execute(sql("set_settings"), (DROPPED_QUEUE, self.num))
        self.settings, self.dropped = DEFAULT_SETTINGS, True

    def next_token(self, now: float) -> int:
        """A token above every earlier one, even if the file was restored from a copy."""
        self.raise_token(max(self.last_token + 1, int(now * 1e6)))
        return self.last_token

    def raise_token(self, token: int) -> None:
        """Let later tokens be above this one."""
        if token > self.last_token:
            self.last_token = token
            self.tx.execute(sql("set_last_token"), (token, self.num))

    # --- lines and their counts ---

    def list_of_state(self, state: State) -> int:
        """The one line of a state (not of `queued`)."""
        return -(self.num * 16 + STATE_CODES[state])

    def ready_list(self, kind: str) -> int:
        """The line of queued jobs of a kind, made if need be."""
        slot = self._ready.get(kind)
        if slot is None:
            if len(self._ready) >= CACHE_LIMIT:
                self._ready.clear()
            slot = self._ready[kind] = self._ensure_list(READY, "", kind)
        return slot

    def parked_list(self, group: str, kind: str) -> int:
        """The line of queued jobs of a kind that a full group holds back, made if need be."""
        return self._ensure_list(PARKED, group, kind)

    def _ensure_list(self, code: int, group: str, kind: str) -> int:
        name = (self.num, code, group, kind)
        row = self.tx.execute(sql("find_slot"), name).fetchall()
        if not row:
            slot = next_number(self.tx, "slot")
            self.tx.execute(sql("add_slot"), (slot, *name))
            return slot
        return int(row[0][0])

    def drop_empty_lists(self, limit: int) -> int:
        """Drop at most so many lines of kinds and groups without jobs; returns how many."""
        self._ready.clear()
        return len(self.tx.execute(sql("drop_empty_slots"), (self.num, limit)).fetchall())

    def change_counts(self, source: int | None, to: int | None, count: int = 1) -> None:
        """Count jobs out of one line and into another."""
        shifts = self._shifts
        if source is not None:
            shifts[source] = shifts.get(source, 0) - count
        if to is not None:
            shifts[to] = shifts.get(to, 0) + count

    def write_counts(self) -> None:
        """Write the counts; call it before anything that reads them, and at the end."""
        tx = self.tx
        changed = [(count, slot) for slot, count in self._shifts.items() if count]
        self._shifts.clear()
        if tx.last_batch != tx.written_batch:
            changed.append((tx.last_batch - tx.written_batch, BATCH_COUNTER))
            tx.written_batch = tx.last_batch
        if changed:
            tx.executemany(sql("count_slot"), changed)

    # --- jobs and the journal ---

    def next_jobs(self, count: int) -> int:
        """Numbers for so many jobs; returns the first."""
        assert self.tx.last_job is not None
        first = self.tx.last_job + 1
        self.tx.last_job += count
        return first

    def drop_jobs(self, jobs: Sequence[tuple[int, int]]) -> None:
        """Delete jobs, given by number and line, with everything that belongs to them."""
        if not jobs:
            return
        for part in ("drop_jobs", "drop_places", "drop_results", "drop_attempts"):
            self.tx.execute(sql(part), (int_array(num for num, _ in jobs),))
        for slot, count in Counter(slot for _, slot in jobs).items():
            self.change_counts(slot, None, count)

    def write_journal(self, at: float, entries: list[Entry]) -> None:
        """Append one batch, in the same transaction as the changes that it reports."""
        if entries:
            tx = self.tx
            tx.last_batch += 1
            tx.execute(sql("add_batch"), (self.num, tx.last_batch, at, pack_entries(entries)))
            self.change_counts(None, -(self.num * 16 + JOURNAL), len(entries))
            tx.wake_listeners(self.key, *topics_to_notify(entries))

    # --- groups ---
    #
    # A claim parks the queued jobs of a full group in lines of their own, so that it does not meet
    # them again and again. Whenever a place in a group may have become free, as many jobs as fit
    # go back into their line. One too many does no harm: the next claim parks it again.

    def running_in(self, group: str) -> int:
        """How many jobs of a group are leased."""
        rows = self.tx.execute(sql("group_running"), (self.num, group)).fetchall()
        return rows[0][0] if rows else 0

    def enter_groups(self, entered: Mapping[str, int]) -> None:
        """Count new leases."""
        values = [(self.num, group, count) for group, count in entered.items()]
        self.tx.executemany(sql("enter_group"), values)

    def free_groups(self, left: Mapping[str, int]) -> None:
        """Count ended leases, and let parked jobs of these groups stand in line again."""
        for group, count in left.items():
            if count:
                self.tx.execute(sql("leave_group"), (count, self.num, group))
                self.tx.execute(sql("forget_group"), (self.num, group))
        self._unpark(left)

    def unpark_all(self) -> None:
        """Unpark jobs of every group that has parked ones, because the limit has changed."""
        rows = self.tx.execute(sql("parked_groups"), (self.num,)).fetchall()
        self._unpark(group for (group,) in rows)

    def _unpark(self, groups: Iterable[str]) -> None:
        # As many of each kind as have room, because the next claim may want only some kinds.
        for group in groups:
            slots = self.tx.execute(sql("parked_slots"), (self.num, group)).fetchall()
            room = self.settings.group_limit - self.running_in(group) if slots else 0
            if room > 0:
                for parked, kind in slots:
                    self._unpark_list(parked, kind, room)

    def _unpark_list(self, parked: int, kind: str, limit: int) -> None:
        execute = self.tx.execute
        jobs = [job for (job,) in execute(sql("parked_jobs"), (parked, limit)).fetchall()]
        if jobs:
            ready = self.ready_list(kind)
            execute(sql("put_many"), (ready, int_array(jobs)))
            self.change_counts(parked, ready, len(jobs))
            self.write_counts()
            self.tx.wake_listeners(self.key, "ready")
        execute(sql("drop_slot"), (parked,))


def find_queue(tx: Transaction, key: QueueKey) -> QueueWriter | None:
    """A queue, if it exists."""
    lines = tx.queues.get(key)
    if lines is None:
        rows = tx.execute(sql("find_queue"), (key.tenant, key.name)).fetchall()
        for num, settings, last_token, last_job, last_batch in rows:
            lines = tx.queues[key] = QueueWriter(tx, key, num, settings, last_token)
            if tx.last_job is None:
                tx.last_job, tx.last_batch, tx.written_batch = last_job or 0, last_batch, last_batch
    return lines


def ensure_queue(tx: Transaction, key: QueueKey) -> QueueWriter:
    """A queue, made if need be."""
    lines = find_queue(tx, key)
    if lines is None:
        settings = encode_settings(DEFAULT_SETTINGS)
        num = tx.execute(sql("add_queue"), (key.tenant, key.name, settings)).fetchall()[0][0]
        states = [state for state in State if state is not State.QUEUED]
        slots = [(list_of_state(num, state), num, STATE_CODES[state], "", "") for state in states]
        slots.append((-(num * 16 + JOURNAL), num, JOURNAL, "", ""))
        tx.executemany(sql("add_slot"), slots)
        return ensure_queue(tx, key)
    if lines.dropped:
        lines.set_settings(DEFAULT_SETTINGS)
    return lines


def next_number(tx: Transaction, counter: str) -> int:
    """A number that this counter never gave before."""
    return int(tx.execute(sql("next_number"), (counter,)).fetchall()[0][0])
