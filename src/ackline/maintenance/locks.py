"""Which process maintains a queue: only one of many in each interval.

A lock only saves work. If it is lost, or two processes have it, both try the same work, and the
store's compare-and-set lets one of them succeed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ackline.core.ids import new_id
from ackline.core.job import QueueKey
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.queue import Queue
from ackline.stores.contract import LOOKUP_BATCH, KeyValue, KeyWrite, Store, find_key

LOCK_BATCH = 100
"""How many locks are written in one call: over HTTP, the size of a request is limited."""

MAX_TRIES = 3
"""How often to retry if other processes take the same locks at the same time."""


class Lock(msgspec.Struct, frozen=True):
    """Which process maintained a queue last, and when by the store's clock."""

    acquired_at: float
    owner: str


decode_lock = msgspec.json.Decoder(Lock).decode


class MaintenanceLocks:
    """One process's locks for one kind of maintenance, such as sweeping.

    A process that maintains a queue renews the queue's lock each time, so it keeps the queue as
    long as it is running. If it did not for an interval, any other process takes over.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._process_id = new_id()

    def acquire(self, intervals: Mapping[Queue[Any, Any], float]) -> list[Queue[Any, Any]]:
        """The queues that this process has to maintain, of these with their intervals."""
        by_key = {queue.key: seconds for queue, seconds in intervals.items()}
        stores = {queue.key: queue.store for queue in intervals}
        acquired = {
            key
            for batch in _batches(by_key)
            for key in self._acquire(stores[batch[0]], batch, by_key)
        }
        return [queue for queue in intervals if queue.key in acquired]

    def _acquire(
        self, store: Store, queues: Sequence[QueueKey], intervals: Mapping[QueueKey, float]
    ) -> list[QueueKey]:
        process_id = f"{self._process_id} {os.getpid()}"  # a forked child is another process
        for _ in range(MAX_TRIES):
            now, locks = store.now(), self._read(store, queues)
            available = {
                queue: entry
                for queue, entry in locks.items()
                if entry is None
                or _is_free(decode_lock(entry.value), process_id, now, intervals[queue])
            }
            value = msgspec.json.encode(Lock(now, process_id))
            writes = [
                KeyWrite(key=self._key(queue), value=value, version=entry.version if entry else 0)
                for queue, entry in available.items()
            ]
            if not writes or store.write_keys(queues[0].tenant, writes):
                return list(available)
        return []

    def _read(self, store: Store, queues: Sequence[QueueKey]) -> dict[QueueKey, KeyValue | None]:
        """The locks of these queues of one tenant, usually in one call."""
        tenant, page = queues[0].tenant, list[KeyValue]()
        if len(queues) > 1:
            before = reserved_key(KeyFamily.MAINTENANCE, queues[0].name)
            page = store.read_keys(
                tenant, reserved_key(KeyFamily.MAINTENANCE), LOOKUP_BATCH, after=before
            )
        found = {entry.key: entry for entry in page}
        if len(queues) > 1 and len(page) < LOOKUP_BATCH:
            return {queue: found.get(self._key(queue)) for queue in queues}
        # A single queue, or the tenant has more locks than fit on a page.
        return {
            queue: found.get(key) or find_key(store, tenant, key)
            for queue, key in zip(queues, map(self._key, queues), strict=True)
        }

    def _key(self, queue: QueueKey) -> tuple[str, ...]:
        return reserved_key(KeyFamily.MAINTENANCE, queue.name, self._name)


def _is_free(lock: Lock, process_id: str, now: float, interval: float) -> bool:
    # Also if the clock was set back: otherwise the lock would last until that time comes again.
    return lock.owner == process_id or not lock.acquired_at <= now < lock.acquired_at + interval


def _batches(queues: Mapping[QueueKey, float]) -> Iterator[list[QueueKey]]:
    """The queues of each tenant in the order of their names, up to `LOCK_BATCH` at a time."""
    by_tenant: dict[str, list[QueueKey]] = {}
    for queue in sorted(queues):
        by_tenant.setdefault(queue.tenant, []).append(queue)
    for names in by_tenant.values():
        for start in range(0, len(names), LOCK_BATCH):
            yield names[start : start + LOCK_BATCH]
