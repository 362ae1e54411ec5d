"""Extends the leases of a stream for as long as its driver lives."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable

from ackline.core.job import QueueKey
from ackline.spark.store.page_size import batched
from ackline.spark.streams.claims.leases import Lease, is_redelivered, look_up
from ackline.stores.contract import Heartbeat, LeaseExtension, Store

logger = logging.getLogger("ackline")

MAX_INTERVAL = 10.0
"""Seconds between heartbeats at most."""


class LeaseRenewer:
    """One thread in the planner that extends every lease the stream holds.

    It stops by itself when another driver has taken the stream over.
    """

    def __init__(
        self, store: Store, key: QueueKey, worker: str, lease: float, fenced: Callable[[], bool]
    ) -> None:
        self._store = store
        self._key = key
        self._lease = lease
        self._is_fenced = fenced
        self.fenced = False
        """Whether another driver was found to have taken the stream over."""
        self._pause = min(lease / 4, MAX_INTERVAL)
        self._leases: set[Lease] = set()
        self._heard_at = 0.0
        """When the store last answered, by the wall clock: it counts time spent suspended, too."""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat = Heartbeat(
            id=worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=time.time(),
            concurrency=1,
            kinds=None,
            # As long as the leases: a driver that restarts is not dead.
            ttl=lease,
        )

    def start(self) -> None:
        """Go on until `stop`."""
        name = f"ackline leases {self._key}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the leases as they are: the next driver continues with them."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def add(self, leases: Iterable[Lease]) -> None:
        """Extend these from now on."""
        with self._lock:
            self._leases.update(leases)

    def remove(self, leases: Iterable[Lease]) -> None:
        """Stop extending these."""
        with self._lock:
            self._leases.difference_update(leases)

    def holds(self, leases: Iterable[Lease]) -> bool:
        """Whether the stream still holds all of these, as the store confirmed a moment ago."""
        if abs(time.time() - self._heard_at) > 2 * self._pause:
            # The driver was suspended, or the store was away: the thread may not know that yet.
            self.heartbeat()
        with self._lock:
            return self._leases.issuperset(leases)

    def extend(self, leases: Iterable[Lease]) -> set[Lease]:
        """Extend leases now; returns those that are lost."""
        lost = self._extend(leases)
        self.remove(lost)
        return lost

    def _extend(self, leases: Iterable[Lease]) -> set[Lease]:
        ordered, lost = sorted(leases), set[Lease]()
        if not ordered and not self._store.describe(self._key.tenant, self._key.name):
            # A heartbeat would create the queue, and its name may be mistyped.
            return lost
        for chunk in batched(ordered) if ordered else [ordered]:
            holds = [LeaseExtension(id, token, self._lease) for id, token in chunk]
            reply = self._store.heartbeat(self._key, self._beat, holds)
            lost.update(chunk[index] for index in reply.lost)
        return lost

    def heartbeat(self) -> None:
        """Extend all leases that are held, and drop those that are lost."""
        with self._lock:
            held = set(self._leases)
        lost = self._extend(held)
        self._heard_at = time.time()
        with self._lock:
            # A lease that was settled meanwhile is no longer held, but was not lost.
            lost &= self._leases
            self._leases -= lost
        if again := self._count_redelivered(lost):
            logger.warning(
                "%s: %d leases of %r are lost; their jobs will be delivered again",
                *(self._key, again, self._beat.id),
            )

    def _count_redelivered(self, lost: Iterable[Lease]) -> int:
        """How many of the jobs come again; the others were settled by those who worked on them."""
        looked_up = look_up(self._store, self._key, sorted(lost))
        return sum(is_redelivered(lease, job) for chunk in looked_up for lease, job in chunk)

    def _run(self) -> None:
        while not self.fenced and not self._stopped.wait(self._pause):
            self.run_once()

    def run_once(self) -> None:
        """What the thread does every few seconds."""
        try:
            self.fenced = self._is_fenced()
            if self.fenced:
                logger.warning("%s: %r is read by another driver", self._key, self._beat.id)
            else:
                self.heartbeat()
        except Exception as error:
            # If this thread ended, the driver would work on while its jobs went to others.
            logger.error("the leases of %r could not be extended: %r", self._beat.id, error)
