"""Stops handlers whose leases could not be kept, when the store cannot be reached to say so."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable

from ackline.queue import StopReason
from ackline.worker.held import LeasedJob
from ackline.worker.leased_jobs import LeasedJobs
from ackline.worker.timers import Timer, Timers

logger = logging.getLogger("ackline")

Interrupt = Callable[[LeasedJob, StopReason], None]


class LeaseWatchdog:
    """Watches how long leases last by the clock of this process.

    While no sign of life gets through, another worker may have the job as soon as its lease has
    lapsed. A lease is counted from when its claim or beat was sent, so it ends here before it ends
    in the store. What the handler still returns is sent: the token decides whether it counts.
    """

    def __init__(self, leased: LeasedJobs, interrupt: Interrupt, timekeeper: Timers) -> None:
        self._leased = leased
        self._interrupt = interrupt
        self._timekeeper = timekeeper
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._runs_at = math.inf

    def add_lease(self, lease: float) -> None:
        """A job with a lease of this length came in."""
        if time.monotonic() + lease < self._runs_at:
            self._set_timer()

    def extend(self, held: Iterable[LeasedJob], sent_at: float) -> None:
        """A beat that was sent at this moment has kept these leases."""
        for job in held:
            job.leased_until = max(job.leased_until, sent_at + job.lease)
        self._set_timer()

    def _set_timer(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._runs_at = min(
                (job.leased_until for job in self._leases_to_watch()), default=math.inf
            )
            if self._runs_at < math.inf:
                left = max(0.0, self._runs_at - time.monotonic())
                self._timer = self._timekeeper.call_later(left, self._stop_expired)

    def _leases_to_watch(self) -> list[LeasedJob]:
        held = list(self._leased.jobs)
        # A job that was settled in a transaction is held by that transaction.
        return [job for job in held if not (job.settling or job.lost or job.settled_in_transaction)]

    def _stop_expired(self) -> None:
        now = time.monotonic()
        for job in self._leases_to_watch():
            if job.leased_until <= now:
                job.leased_until = math.inf  # its handler is stopped once
                logger.warning(
                    "job %r: its lease could not be kept for %g s; stopping its handler",
                    job.id,
                    job.lease,
                )
                self._interrupt(job, StopReason.LEASE_LOST)
        self._set_timer()
