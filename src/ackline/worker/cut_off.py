"""Stops handlers whose leases could not be kept, when the store cannot be reached to say so."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable

from ackline.queue import StopReason
from ackline.worker.held import Held
from ackline.worker.leased_jobs import LeasedJobs
from ackline.worker.timekeeper import Alarm, Timekeeper

logger = logging.getLogger("ackline")

Interrupt = Callable[[Held, StopReason], None]


class CutOff:
    """Watches how long leases last by the clock of this process.

    While no sign of life gets through, another worker may have the job as soon as its lease has
    lapsed. A lease is counted from when its claim or beat was sent, so it ends here before it ends
    in the store. What the handler still returns is sent: the token decides whether it counts.
    """

    def __init__(self, leased: LeasedJobs, interrupt: Interrupt, timekeeper: Timekeeper) -> None:
        self._leased = leased
        self._interrupt = interrupt
        self._timekeeper = timekeeper
        self._lock = threading.Lock()
        self._alarm: Alarm | None = None
        self._rings_at = math.inf

    def expect(self, lease: float) -> None:
        """A job with a lease of this length came in."""
        if time.monotonic() + lease < self._rings_at:
            self._set_alarm()

    def put_off(self, held: Iterable[Held], sent_at: float) -> None:
        """A beat that was sent at this moment has kept these leases."""
        for job in held:
            job.kept_until = max(job.kept_until, sent_at + job.lease)
        self._set_alarm()

    def _set_alarm(self) -> None:
        with self._lock:
            if self._alarm is not None:
                self._alarm.call_off()
            self._rings_at = min((job.kept_until for job in self._at_stake()), default=math.inf)
            if self._rings_at < math.inf:
                left = max(0.0, self._rings_at - time.monotonic())
                self._alarm = self._timekeeper.call_later(left, self._ring)

    def _at_stake(self) -> list[Held]:
        held = list(self._leased.held)
        # A job that was settled in a transaction is held by that transaction.
        return [job for job in held if not (job.settling or job.lost or job.in_transaction)]

    def _ring(self) -> None:
        now = time.monotonic()
        for job in self._at_stake():
            if job.kept_until <= now:
                job.kept_until = math.inf  # its handler is stopped once
                logger.warning(
                    "job %r: its lease could not be kept for %g s; stopping its handler",
                    job.id,
                    job.lease,
                )
                self._interrupt(job, StopReason.LEASE_LOST)
        self._set_alarm()
