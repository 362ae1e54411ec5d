"""Counts of recovered jobs, and the leases that are overdue."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from ackline.core.errors import StoreError
from ackline.core.events import RecoveredBy
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import QueueKey, State
from ackline.core.lifecycle import Verdict
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.stores.contract import KeyWrite, Store, find_key

logger = logging.getLogger("ackline")


MAX_COUNT = 2**53
"""The largest integer that a float represents exactly."""

MAX_SAVE_TRIES = 3
"""How often to try to write counts that other processes write, too."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]


class Recovered(msgspec.Struct, frozen=True):
    """How many jobs one source recovered, how many went to the DLQ, and when the last one did."""

    jobs: Count
    dead_lettered: Count
    last_at: float


class RecoveryStats(msgspec.Struct, frozen=True, kw_only=True):
    """What was recovered since the queue was created, and what is overdue."""

    by_source: Mapping[RecoveredBy, Recovered]
    overdue: int
    """Leases past their deadline that are not recovered yet; counted up to 200."""
    longest_overdue: float
    """Seconds since the earliest of their deadlines."""
    stuck: tuple[str, ...]
    """Jobs whose lease has been overdue for longer than the queue's `stuck_after`."""

    @property
    def jobs(self) -> int:
        """The number of recovered jobs, from all sources."""
        return sum(recovered.jobs for recovered in self.by_source.values())


_Counts = dict[str, Recovered]
"""As stored; a newer Ackline may know more sources."""


def decode_recovery_counts(value: bytes) -> _Counts:
    """Decode the stored counts; raises if the value is something else."""
    return msgspec.json.decode(value, type=_Counts)


def load_recovery_counts(store: Store, queue: QueueKey) -> Mapping[RecoveredBy, Recovered]:
    """The number of recovered jobs of a queue by source; sources without any are left out."""
    counts = _read(store, queue)[0]
    return {source: counts[source] for source in RecoveredBy if source in counts}


class RecoveryCounts:
    """Counts what one process recovers in a queue.

    A claim only counts in memory: it must not wait for a key that other claims write, too. The
    maintenance loops save the counts, and at the latest the queue does when it is closed. If a
    process is killed in between, some are not counted; the journal has every one.
    """

    def __init__(self, store: Store, queue: QueueKey) -> None:
        self._store = store
        self._queue = queue
        self._unsaved: _Counts = {}
        self._pid = os.getpid()
        self._lock = threading.Lock()
        renew_locks_after_fork(self, "_lock")

    def add(self, source: RecoveredBy, verdicts: Sequence[Verdict]) -> None:
        """Count recovered leases in memory, until they are saved."""
        applied = [verdict for verdict in verdicts if verdict.applied]
        if applied:
            dead = sum(verdict.state is State.FAILED for verdict in applied)
            self._add_unsaved({source: Recovered(len(applied), dead, 0.0)})

    def _add_unsaved(self, counts: _Counts) -> None:
        with self._lock:
            self._unsaved = _add_counts(self._own_unsaved(), counts)

    def _own_unsaved(self) -> _Counts:
        """The unsaved counts of this process; a forked child leaves its parent's to the parent."""
        if self._pid != os.getpid():
            self._pid, self._unsaved = os.getpid(), {}
        return self._unsaved

    def save(self) -> None:
        """Add the unsaved counts to the stored ones; if that fails, the next call retries it."""
        with self._lock:
            unsaved, self._unsaved = self._own_unsaved(), {}
        if not unsaved:
            return
        try:
            now = self._store.now()
            counts = {
                source: msgspec.structs.replace(added, last_at=now)
                for source, added in unsaved.items()
            }
            if any(self._add(counts) for _ in range(MAX_SAVE_TRIES)):
                return
        except StoreError as error:
            jobs = sum(added.jobs for added in unsaved.values())
            logger.warning(
                "%s: %d recovered jobs are not counted yet: %s", self._queue, jobs, error
            )
        self._add_unsaved(unsaved)

    def _add(self, counts: _Counts) -> bool:
        stored, version = _read(self._store, self._queue)
        value = msgspec.json.encode(_add_counts(stored, counts))
        write = KeyWrite(key=_key(self._queue), value=value, version=version)
        return self._store.write_keys(self._queue.tenant, [write])


def _add_counts(counts: _Counts, others: _Counts) -> _Counts:
    total = dict(counts)
    for source, added in others.items():
        before = counts.get(source, Recovered(0, 0, 0.0))
        total[source] = Recovered(
            before.jobs + added.jobs,
            before.dead_lettered + added.dead_lettered,
            max(before.last_at, added.last_at),
        )
    return total


def _read(store: Store, queue: QueueKey) -> tuple[_Counts, int]:
    found = find_key(store, queue.tenant, _key(queue))
    return ({}, 0) if found is None else (decode_recovery_counts(found.value), found.version)


def _key(queue: QueueKey) -> tuple[str, ...]:
    return reserved_key(KeyFamily.RECOVERED, queue.name)
