"""Which process of a fleet does a duty for a queue: one of them in each interval.

A lock only saves work. Where it is lost, or two processes have it, the same work is tried twice,
and the store's compare-and-set keeps that apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ackline.core.ids import new_id
from ackline.core.job import QueueKey
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.queue import Queue
from ackline.stores.contract import LOOKUP_BATCH, KeyValue, KeyWrite, Store, find_key

KEY_PREFIX = "maintenance"

LOCK_BATCH = 100
"""How many locks are written in one step: over HTTP, a request has a limit."""

MAX_TRIES = 3
"""How often to look again if other processes take the same locks meanwhile."""


class Lock(msgspec.Struct, frozen=True):
    """Who did a duty for a queue last, and when by the store's clock."""

    acquired_at: float
    owner: str


decode_lock = msgspec.json.Decoder(Lock).decode


class MaintenanceLocks:
    """One process's part in a duty, such as sweeping.

    Whenever it does the duty for a queue it renews the queue's lock, so it goes on as long as it
    lives. After an interval in which it did not, any other process takes over.
    """

    def __init__(self, duty: str) -> None:
        self._name = duty
        self._process_id = new_id()

    def acquire(self, intervals: Mapping[Queue[Any, Any], float]) -> list[Queue[Any, Any]]:
        """Those of these queues, each with its interval, that are this process's to look after."""
        by_key = {queue.key: seconds for queue, seconds in intervals.items()}
        stores = {queue.key: queue.store for queue in intervals}
        acquired = {
            key
            for batch in _batches(by_key)
            for key in self._acquire(stores[batch[0]], batch, by_key)
        }
        return [queue for queue in intervals if queue.key in acquired]

    def _acquire(
        self, store: Store, queues: Sequence[QueueKey], every: Mapping[QueueKey, float]
    ) -> list[QueueKey]:
        own = f"{self._process_id} {os.getpid()}"  # a forked child is another process
        for _ in range(MAX_TRIES):
            now, locks = store.now(), self._read(store, queues)
            free = {
                queue: entry
                for queue, entry in locks.items()
                if entry is None or _is_free(decode_lock(entry.value), own, now, every[queue])
            }
            value = msgspec.json.encode(Lock(now, own))
            writes = [
                KeyWrite(key=self._key(queue), value=value, version=entry.version if entry else 0)
                for queue, entry in free.items()
            ]
            if not writes or store.write_keys(queues[0].tenant, writes):
                return list(free)
        return []

    def _read(self, store: Store, queues: Sequence[QueueKey]) -> dict[QueueKey, KeyValue | None]:
        """The locks of these queues of one tenant: most often in one call."""
        tenant, page = queues[0].tenant, list[KeyValue]()
        if len(queues) > 1:
            before = (RESERVED_KEY_PREFIX, KEY_PREFIX, queues[0].name)
            page = store.read_keys(
                tenant, (RESERVED_KEY_PREFIX, KEY_PREFIX), LOOKUP_BATCH, after=before
            )
        found = {entry.key: entry for entry in page}
        if len(queues) > 1 and len(page) < LOOKUP_BATCH:
            return {queue: found.get(self._key(queue)) for queue in queues}
        # Only one is wanted, or the tenant has so many queues that a page does not show them all.
        return {
            queue: found.get(key) or find_key(store, tenant, key)
            for queue, key in zip(queues, map(self._key, queues), strict=True)
        }

    def _key(self, queue: QueueKey) -> tuple[str, ...]:
        return (RESERVED_KEY_PREFIX, KEY_PREFIX, queue.name, self._name)


def _is_free(lock: Lock, own: str, now: float, every: float) -> bool:
    # Also if the clock was put back: a lock must not last until its time comes again.
    return lock.owner == own or not lock.acquired_at <= now < lock.acquired_at + every


def _batches(queues: Mapping[QueueKey, float]) -> Iterator[list[QueueKey]]:
    """The queues of each tenant in the order of their names, some at a time."""
    by_tenant: dict[str, list[QueueKey]] = {}
    for queue in sorted(queues):
        by_tenant.setdefault(queue.tenant, []).append(queue)
    for own in by_tenant.values():
        for start in range(0, len(own), LOCK_BATCH):
            yield own[start : start + LOCK_BATCH]
