"""Writes to one queue: its settings, job lists and counts, journal and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ackline.core.config import DEFAULT_SETTINGS, QueueSettings
from ackline.core.events import Entry
from ackline.core.job import QueueKey, State
from ackline.stores.shared.apply import topics_to_notify
from ackline.stores.shared.journal_batches import pack_entries
from ackline.stores.shared.record_encoding import (
    DROPPED_QUEUE,
    STATE_CODES,
    decode_settings,
    encode_settings,
)
from ackline.stores.sqlite.io.transaction import Transaction
from ackline.stores.sqlite.rows import (
    BATCH_COUNTER,
    JOURNAL,
    PARKED,
    READY,
    int_array,
    list_of_state,
)
from ackline.stores.sqlite.sql import sql

CACHE_LIMIT = 1000
"""The most kinds of a queue whose lists are cached."""


class QueueWriter:
    """One queue in a transaction: its settings, its lists, and how their counts change."""

    __slots__ = (
        "_count_changes",
        "_ready",
        "dropped",
        "key",
        "last_token",
        "num",
        "settings",
        "tx",
    )

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
        self._count_changes: dict[int, int] = {}

    # --- settings and tokens ---

    def set_settings(self, settings: QueueSettings) -> None:
        """Replace the settings."""
        self.tx.execute(sql("set_settings"), (encode_settings(settings), self.num))
        self.settings, self.dropped = settings, False

    def drop(self) -> None:
        """Mark the queue as dropped; only its journal is left."""
        self.tx.execute(sql("set_settings"), (DROPPED_QUEUE, self.num))
        self.settings, self.dropped = DEFAULT_SETTINGS, True

    def next_token(self, now: float) -> int:
        """A token above every earlier one, even if the file was restored from a backup."""
        self.raise_token(max(self.last_token + 1, int(now * 1e6)))
        return self.last_token

    def raise_token(self, token: int) -> None:
        """Make sure that later tokens are above this one."""
        if token > self.last_token:
            self.last_token = token
            self.tx.execute(sql("set_last_token"), (token, self.num))

    # --- lists and their counts ---

    def list_of_state(self, state: State) -> int:
        """The list of a state (not of `queued`, which has several)."""
        return -(self.num * 16 + STATE_CODES[state])

    def ready_list(self, kind: str) -> int:
        """The list of queued jobs of a kind, created if necessary."""
        list_id = self._ready.get(kind)
        if list_id is None:
            if len(self._ready) >= CACHE_LIMIT:
                self._ready.clear()
            list_id = self._ready[kind] = self._ensure_list(READY, "", kind)
        return list_id

    def parked_list(self, group: str, kind: str) -> int:
        """The list of a group's parked jobs of a kind, created if necessary."""
        return self._ensure_list(PARKED, group, kind)

    def _ensure_list(self, code: int, group: str, kind: str) -> int:
        name = (self.num, code, group, kind)
        row = self.tx.execute(sql("find_list"), name).fetchall()
        if not row:
            list_id = next_number(self.tx, "job_list")
            self.tx.execute(sql("add_list"), (list_id, *name))
            return list_id
        return int(row[0][0])

    def drop_empty_lists(self, limit: int) -> int:
        """Drop at most `limit` lists of kinds and groups without jobs; returns how many."""
        self._ready.clear()
        return len(self.tx.execute(sql("drop_empty_lists"), (self.num, limit)).fetchall())

    def change_counts(self, source: int | None, to: int | None, count: int = 1) -> None:
        """Count jobs out of one list and into another."""
        changes = self._count_changes
        if source is not None:
            changes[source] = changes.get(source, 0) - count
        if to is not None:
            changes[to] = changes.get(to, 0) + count

    def write_counts(self) -> None:
        """Write the changed counts: at the end, and before anything that reads them."""
        tx = self.tx
        changed = [(count, list_id) for list_id, count in self._count_changes.items() if count]
        self._count_changes.clear()
        if tx.last_batch != tx.written_batch:
            changed.append((tx.last_batch - tx.written_batch, BATCH_COUNTER))
            tx.written_batch = tx.last_batch
        if changed:
            tx.executemany(sql("change_count"), changed)

    # --- jobs and the journal ---

    def next_jobs(self, count: int) -> int:
        """Reserve numbers for `count` jobs; returns the first."""
        assert self.tx.last_job is not None
        first = self.tx.last_job + 1
        self.tx.last_job += count
        return first

    def drop_jobs(self, jobs: Sequence[tuple[int, int]]) -> None:
        """Delete jobs, given by number and list, with everything that belongs to them."""
        if not jobs:
            return
        for part in ("drop_jobs", "drop_states", "drop_results", "drop_attempts"):
            self.tx.execute(sql(part), (int_array(num for num, _ in jobs),))
        for list_id, count in Counter(list_id for _, list_id in jobs).items():
            self.change_counts(list_id, None, count)

    def write_journal(self, at: float, entries: list[Entry]) -> None:
        """Append one batch, in the same transaction as the changes that it records."""
        if entries:
            tx = self.tx
            tx.last_batch += 1
            tx.execute(sql("add_batch"), (self.num, tx.last_batch, at, pack_entries(entries)))
            self.change_counts(None, -(self.num * 16 + JOURNAL), len(entries))
            tx.wake_listeners(self.key, *topics_to_notify(entries))

    # --- groups ---
    #
    # A claim parks the queued jobs of a full group in separate lists, so that it does not meet them
    # again and again. Whenever a slot of a group may have become free, as many jobs as there are
    # free slots go back to their list. One too many does no harm: the next claim parks it again.

    def running_in(self, group: str) -> int:
        """How many jobs of a group are leased."""
        rows = self.tx.execute(sql("group_running"), (self.num, group)).fetchall()
        return rows[0][0] if rows else 0

    def add_running(self, started: Mapping[str, int]) -> None:
        """Count new leases."""
        values = [(self.num, group, count) for group, count in started.items()]
        self.tx.executemany(sql("add_running"), values)

    def free_groups(self, freed: Mapping[str, int]) -> None:
        """Subtract ended leases, and unpark jobs of these groups."""
        for group, count in freed.items():
            if count:
                self.tx.execute(sql("subtract_running"), (count, self.num, group))
                self.tx.execute(sql("delete_group"), (self.num, group))
        self._unpark(freed)

    def unpark_all(self) -> None:
        """Unpark jobs of all groups, because the limit has changed."""
        rows = self.tx.execute(sql("parked_groups"), (self.num,)).fetchall()
        self._unpark(group for (group,) in rows)

    def _unpark(self, groups: Iterable[str]) -> None:
        # As many of each kind as there are free slots: the next claim may want only some kinds.
        for group in groups:
            lists = self.tx.execute(sql("parked_lists"), (self.num, group)).fetchall()
            free_slots = self.settings.group_limit - self.running_in(group) if lists else 0
            if free_slots > 0:
                for parked_list, kind in lists:
                    self._unpark_list(parked_list, kind, free_slots)

    def _unpark_list(self, parked_list: int, kind: str, limit: int) -> None:
        execute = self.tx.execute
        jobs = [job for (job,) in execute(sql("parked_jobs"), (parked_list, limit)).fetchall()]
        if jobs:
            ready_list = self.ready_list(kind)
            execute(sql("set_list_many"), (ready_list, int_array(jobs)))
            self.change_counts(parked_list, ready_list, len(jobs))
            self.write_counts()
            self.tx.wake_listeners(self.key, "ready")
        execute(sql("drop_list_if_empty"), (parked_list,))


def find_queue(tx: Transaction, key: QueueKey) -> QueueWriter | None:
    """The writer of a queue, if the queue exists."""
    writer: QueueWriter | None = tx.queues.get(key)
    if writer is None:
        rows = tx.execute(sql("find_queue"), (key.tenant, key.name)).fetchall()
        for num, settings, last_token, last_job, last_batch in rows:
            writer = tx.queues[key] = QueueWriter(tx, key, num, settings, last_token)
            if tx.last_job is None:
                tx.last_job, tx.last_batch, tx.written_batch = last_job or 0, last_batch, last_batch
    return writer


def ensure_queue(tx: Transaction, key: QueueKey) -> QueueWriter:
    """The writer of a queue, created if necessary."""
    writer = find_queue(tx, key)
    if writer is None:
        settings = encode_settings(DEFAULT_SETTINGS)
        num = tx.execute(sql("add_queue"), (key.tenant, key.name, settings)).fetchall()[0][0]
        states = [state for state in State if state is not State.QUEUED]
        lists = [(list_of_state(num, state), num, STATE_CODES[state], "", "") for state in states]
        lists.append((-(num * 16 + JOURNAL), num, JOURNAL, "", ""))
        tx.executemany(sql("add_list"), lists)
        return ensure_queue(tx, key)
    if writer.dropped:
        writer.set_settings(DEFAULT_SETTINGS)
    return writer


def next_number(tx: Transaction, counter: str) -> int:
    """A number that this counter has never given before."""
    return int(tx.execute(sql("next_number"), (counter,)).fetchall()[0][0])
