"""Extends the leases of a stream while its driver is alive."""

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
    """A thread of the planner that extends all leases of the stream.

    It stops when another driver has taken over the stream.
    """

    def __init__(
        self, store: Store, key: QueueKey, worker: str, lease: float, fenced: Callable[[], bool]
    ) -> None:
        self._store = store
        self._key = key
        self._lease = lease
        self._is_fenced = fenced
        self.fenced = False
        """Whether another driver has taken over the stream."""
        self._interval = min(lease / 4, MAX_INTERVAL)
        self._leases: set[Lease] = set()
        self._confirmed_at = 0.0
        """When the store last replied, by the wall clock, which includes time spent suspended."""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._heartbeat = Heartbeat(
            id=worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=time.time(),
            concurrency=1,
            kinds=None,
            # As long as the leases, so that a driver may restart.
            ttl=lease,
        )

    def start(self) -> None:
        """Start the thread; it runs until `stop`."""
        name = f"ackline leases {self._key}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; the leases stay, so that the next driver can continue with them."""
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

    def has_all(self, leases: Iterable[Lease]) -> bool:
        """Whether all of these are still leased, as the store has recently confirmed."""
        if abs(time.time() - self._confirmed_at) > 2 * self._interval:
            # The driver was suspended or the store unavailable: the thread may not know that yet.
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
            extensions = [LeaseExtension(id, token, self._lease) for id, token in chunk]
            reply = self._store.heartbeat(self._key, self._heartbeat, extensions)
            lost.update(chunk[index] for index in reply.lost)
        return lost

    def heartbeat(self) -> None:
        """Extend all leases, and drop those that are lost."""
        with self._lock:
            leases = set(self._leases)
        lost = self._extend(leases)
        self._confirmed_at = time.time()
        with self._lock:
            # A lease that was settled meanwhile has ended, but was not lost.
            lost &= self._leases
            self._leases -= lost
        if again := self._count_redelivered(lost):
            logger.warning(
                "%s: %d leases of %r are lost; their jobs will be delivered again",
                *(self._key, again, self._heartbeat.id),
            )

    def _count_redelivered(self, lost: Iterable[Lease]) -> int:
        """How many of the jobs will be delivered again; the others were settled meanwhile."""
        looked_up = look_up(self._store, self._key, sorted(lost))
        return sum(is_redelivered(lease, job) for chunk in looked_up for lease, job in chunk)

    def _run(self) -> None:
        while not self.fenced and not self._stopped.wait(self._interval):
            self.run_once()

    def run_once(self) -> None:
        """Extend all leases once, unless another driver has taken over."""
        try:
            self.fenced = self._is_fenced()
            if self.fenced:
                logger.warning(
                    "%s: another driver has taken over %r", self._key, self._heartbeat.id
                )
            else:
                self.heartbeat()
        except Exception as error:
            # If this thread ended, the driver would go on while its jobs were delivered again.
            logger.error("the leases of %r could not be extended: %r", self._heartbeat.id, error)
