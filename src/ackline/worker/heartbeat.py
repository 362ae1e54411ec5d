"""Extends a worker's leases, and stops handlers whose leases could not be extended."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ackline.core.errors import StoreClosed, StoreError
from ackline.queue import StopReason
from ackline.stores.contract import Heartbeat, LeaseExtension
from ackline.worker.leased_jobs import LeasedJob, LeasedJobs
from ackline.worker.timers import Timer, Timers

logger = logging.getLogger("ackline")

HEARTBEAT_INTERVAL = 2.0
"""Seconds between signs of life at most; a short lease is kept more often."""

RETRY_DELAY = 0.05
"""Seconds before a heartbeat that failed is tried again, whatever it was that failed."""

LOG_INTERVAL = 10.0
"""Seconds after which an error that lasts is logged again."""

HEARTBEAT_TTL = 10.0
"""Seconds without a sign of life after which a worker counts as dead."""


class HeartbeatSender:
    """Extends the leases of one queue's jobs and passes on what the store says about them."""

    def __init__(
        self,
        leased: LeasedJobs,
        beat: Heartbeat,
        interrupt: Interrupt,
        after_heartbeat: Callable[[], None],
        timekeeper: Timers,
        stop_worker: Callable[[StoreClosed], None],
    ) -> None:
        self._leased = leased
        self._beat = beat
        self._interrupt = interrupt
        self._after_beat = after_heartbeat
        self._give_up = stop_worker
        self._watchdog = LeaseWatchdog(leased, interrupt, timekeeper)
        self._stopped = threading.Event()
        self._interval = HEARTBEAT_INTERVAL
        self._logged_at = -math.inf
        # Listening for cancel requests, so that they need not wait for the next beat.
        self._listener = leased.queue.store.listen([leased.queue.key], "cancel_requests")
        name = f"ackline heartbeat {leased.queue.key}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Beat once, so that the worker is known before its first claim, then go on."""
        self.send()
        self._thread.start()

    def stop(self) -> None:
        """Say goodbye."""
        self._stopped.set()
        self._listener.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        self._listener.close()
        last_heartbeat = msgspec.structs.replace(self._beat, ttl=0.0)
        queue = self._leased.queue
        try:
            queue.store.heartbeat(queue.key, last_heartbeat, [])
        except StoreError as error:
            logger.warning(
                "worker %s could not say goodbye to %s: %s", last_heartbeat.id, queue.key, error
            )

    def add_lease(self, lease: float) -> None:
        """A job came in: beat sooner if its lease is shorter than the pause under way."""
        self._watchdog.add_lease(lease)
        if lease / 3 < self._interval:
            self._interval = lease / 3
            self._listener.wake()

    def send(self) -> float:
        """One sign of life; returns the seconds until the next."""
        held = [job for job in list(self._leased.jobs) if not job.settling and not job.lost]
        holds = [LeaseExtension(job.record.id, job.record.token, job.lease) for job in held]
        queue, sent_at = self._leased.queue, time.monotonic()
        reply = queue.store.heartbeat(queue.key, self._beat, holds)
        self._watchdog.extend(held, sent_at)
        self._stop_handlers([held[index] for index in reply.lost], StopReason.LEASE_LOST)
        self._stop_handlers([held[index] for index in reply.cancelled], StopReason.CANCEL_REQUESTED)
        return min([HEARTBEAT_INTERVAL, *(job.lease / 3 for job in held)])

    def _stop_handlers(self, jobs: Sequence[LeasedJob], reason: StopReason) -> None:
        for held in jobs:
            if held.settling:
                continue
            if reason is StopReason.LEASE_LOST:
                if held.settled_in_transaction:
                    # Most likely by its own commit; if not, its next step will be refused.
                    continue
                if not self._leased.mark_lost(held):
                    continue
                logger.warning("job %r: its lease is lost; stopping its handler", held.id)
                self._interrupt(held, reason)
            else:
                held.signal.set(reason)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._wait()
                if self._stopped.is_set():
                    return
                self._interval = self.send()
                self._after_beat()
                self._logged_at = -math.inf
            except StoreClosed as error:
                if not self._stopped.is_set():
                    self._give_up(error)
                return
            except Exception as error:
                # A worker without a heartbeat would seem alive to itself, and dead to all others.
                self._log_failure(error)
                self._interval = min(self._interval, HEARTBEAT_INTERVAL / 4)
                self._stopped.wait(RETRY_DELAY)

    def _wait(self) -> None:
        """Until the next beat is due, or news may be a cancel request for a job that is held."""
        began = time.monotonic()
        while not self._stopped.is_set():
            left = began + self._interval - time.monotonic()
            if left <= 0 or (self._listener.wait(left) and self._leased.jobs):
                return

    def _log_failure(self, error: Exception) -> None:
        if time.monotonic() < self._logged_at + LOG_INTERVAL:
            return
        self._logged_at = time.monotonic()
        key = self._leased.queue.key
        logger.error("heartbeat of %s failed, and is tried again: %s", key, error)


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
