"""Keeps the leases of a stream for as long as its driver lives."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable

from ackline.job import QueueKey
from ackline.spark.claims.leases import Lease, chunks, comes_again, look_up
from ackline.stores.base import Hold, Store, WorkerBeat

logger = logging.getLogger("ackline")

LONGEST_PAUSE = 10.0
"""Seconds between signs of life at most."""


class LeaseKeeper:
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
        self._pause = min(lease / 4, LONGEST_PAUSE)
        self._held: set[Lease] = set()
        self._heard_at = 0.0
        """By the wall clock, which also counts the time that the machine was suspended."""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat = WorkerBeat(
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

    def hold(self, leases: Iterable[Lease]) -> None:
        """Keep these from now on."""
        with self._lock:
            self._held.update(leases)

    def drop(self, leases: Iterable[Lease]) -> None:
        """Stop keeping these."""
        with self._lock:
            self._held.difference_update(leases)

    def keeps(self, leases: Iterable[Lease]) -> bool:
        """Whether the stream still has all of these, as the store said a moment ago."""
        if abs(time.time() - self._heard_at) > 2 * self._pause:
            # The driver was suspended, or the store away: the thread may not have noticed yet.
            self.beat()
        with self._lock:
            return self._held.issuperset(leases)

    def extend(self, leases: Iterable[Lease]) -> set[Lease]:
        """Extend leases now; returns those that are lost."""
        lost = self._extend(leases)
        self.drop(lost)
        return lost

    def _extend(self, leases: Iterable[Lease]) -> set[Lease]:
        several, lost = sorted(leases), set[Lease]()
        if not several and not self._store.describe(self._key.tenant, self._key.name):
            # A sign of life would create a queue, and its name may only be mistyped.
            return lost
        for chunk in chunks(several) if several else [several]:
            holds = [Hold(id, token, self._lease) for id, token in chunk]
            reply = self._store.heartbeat(self._key, self._beat, holds)
            lost.update(chunk[index] for index in reply.lost)
        return lost

    def beat(self) -> None:
        """Extend all of them."""
        with self._lock:
            held = set(self._held)
        lost = self._extend(held)
        self._heard_at = time.time()
        with self._lock:
            # What was settled meanwhile is not held any more either, but not lost.
            lost &= self._held
            self._held -= lost
        if again := self._coming_again(lost):
            logger.warning(
                "%s: %d leases of %r are lost; their jobs will be delivered again",
                *(self._key, again, self._beat.id),
            )

    def _coming_again(self, lost: Iterable[Lease]) -> int:
        """How many of these jobs; the others were settled meanwhile, by who worked on them."""
        looked_up = look_up(self._store, self._key, sorted(lost))
        return sum(comes_again(lease, job) for some in looked_up for lease, job in some)

    def _run(self) -> None:
        while not self.fenced and not self._stopped.wait(self._pause):
            self.look_after()

    def look_after(self) -> None:
        """What the thread does every few seconds."""
        try:
            self.fenced = self._is_fenced()
            if self.fenced:
                logger.warning("%s: %r is read by another driver", self._key, self._beat.id)
            else:
                self.beat()
        except Exception as error:
            # Without this thread the driver would work on, and its jobs go to others.
            logger.error("the leases of %r could not be extended: %r", self._beat.id, error)
