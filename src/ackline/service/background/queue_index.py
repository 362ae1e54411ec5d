"""Which queues hold jobs in which states: one read serves all loops of a process."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from ackline.core.job import QueueKey, State
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.service.settings import Settings
from ackline.stores.contract import QueueInfo, Store

MAX_AGE = 2.0
"""Seconds after which to read the queues again although the journal has not grown."""

AnyQueue = Queue[Any, Any]


class QueueIndex:
    """Reads all queues again when something has happened; otherwise it uses its cache.

    Otherwise every loop would have to check each queue for work every second.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._lock = threading.Lock()
        self._queues: dict[QueueKey, AnyQueue] = {}
        self._absent: WeakValueDictionary[QueueKey, AnyQueue] = WeakValueDictionary()
        self._infos: Sequence[QueueInfo] = ()
        self._by_states: dict[frozenset[State], tuple[AnyQueue, ...]] = {}
        self._cursor: str | None = None
        self._read_at = -math.inf

    def queues(self, states: frozenset[State] = frozenset()) -> tuple[AnyQueue, ...]:
        """The queues that have jobs in one of these states; by default all queues."""
        with self._lock:
            self._refresh()
            if states not in self._by_states:
                self._by_states[states] = tuple(
                    self._queues[info.key] for info in self._infos if _has_jobs(info, states)
                )
            return self._by_states[states]

    def queue(self, key: QueueKey) -> AnyQueue:
        """A queue, whether it exists or not: the same object for as long as it is in use."""
        with self._lock:
            queue = self._queues.get(key) or self._absent.get(key) or self._open(key)
            if key not in self._queues:
                self._absent[key] = queue
            return queue

    def _refresh(self) -> None:
        cursor, now = self._store.info().cursor, time.monotonic()
        if cursor == self._cursor and now - self._read_at < MAX_AGE:
            return
        self._infos = self._store.describe(None, include_dropped=True)
        keys = [info.key for info in self._infos]
        known = {**self._absent, **self._queues}
        self._queues = {key: known.get(key) or self._open(key) for key in keys}
        self._by_states.clear()
        self._cursor, self._read_at = cursor, now

    def _open(self, key: QueueKey) -> AnyQueue:
        queue = Queues(self._store, key.tenant)[key.name]
        queue.policies.defaults = self._settings.defaults
        return queue


def _has_jobs(info: QueueInfo, states: frozenset[State]) -> bool:
    return not states or any(info.counts[state] for state in states)
