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
"""Longest interval in seconds between two heartbeats; short leases are extended more often."""

RETRY_DELAY = 0.05
"""Seconds before a failed heartbeat is retried."""

LOG_INTERVAL = 10.0
"""Seconds after which an error that lasts is logged again."""

HEARTBEAT_TTL = 10.0
"""Seconds without a heartbeat after which a worker counts as dead, unless it says otherwise."""

MIN_HEARTBEAT_TTL = 1.0
"""Seconds; with less, a short stall of a live worker would cost its jobs an attempt."""


class HeartbeatSender:
    """Extends the leases of one queue's jobs, and stops handlers of lost and cancelled jobs."""

    def __init__(
        self,
        leased: LeasedJobs,
        heartbeat: Heartbeat,
        interrupt: Interrupt,
        after_heartbeat: Callable[[], None],
        timers: Timers,
        stop_worker: Callable[[StoreClosed], None],
    ) -> None:
        self._leased = leased
        self._heartbeat = heartbeat
        self._interrupt = interrupt
        self._after_heartbeat = after_heartbeat
        self._stop_worker = stop_worker
        self._watchdog = LeaseWatchdog(leased, interrupt, timers)
        self._stopped = threading.Event()
        self._max_interval = min(HEARTBEAT_INTERVAL, heartbeat.ttl / 3)
        self._interval = self._max_interval
        self._logged_at = -math.inf
        self._sent_at = -math.inf
        # To receive cancel requests before the next heartbeat is due.
        self._listener = leased.queue.store.listen([leased.queue.key], "cancel_requests")
        name = f"ackline heartbeat {leased.queue.key}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Send one heartbeat, so that the worker is known before its first claim, then start."""
        self.send()
        self._thread.start()

    def stop(self) -> None:
        """Stop, and deregister the worker."""
        self._stopped.set()
        self._listener.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        self._listener.close()
        last_heartbeat = msgspec.structs.replace(self._heartbeat, ttl=0.0)
        queue = self._leased.queue
        try:
            queue.store.heartbeat(queue.key, last_heartbeat, [])
        except StoreError as error:
            logger.warning(
                "worker %s could not deregister from %s: %s", last_heartbeat.id, queue.key, error
            )

    @property
    def age(self) -> float:
        """Seconds since the last heartbeat that the store has accepted; infinite before."""
        return time.monotonic() - self._sent_at

    def add_lease(self, lease: float) -> None:
        """Send the next heartbeat sooner if the lease of a new job is short."""
        self._watchdog.add_lease(lease)
        if lease / 3 < self._interval:
            self._interval = lease / 3
            self._listener.wake()

    def send(self) -> float:
        """Send one heartbeat; returns the seconds until the next."""
        jobs = [job for job in list(self._leased.jobs) if not job.settling and not job.lost]
        extensions = [LeaseExtension(job.record.id, job.record.token, job.lease) for job in jobs]
        queue, sent_at = self._leased.queue, time.monotonic()
        reply = queue.store.heartbeat(queue.key, self._heartbeat, extensions)
        self._sent_at = sent_at
        self._watchdog.extend(jobs, sent_at)
        self._stop_handlers([jobs[index] for index in reply.lost], StopReason.LEASE_LOST)
        self._stop_handlers([jobs[index] for index in reply.cancelled], StopReason.CANCEL_REQUESTED)
        return min([self._max_interval, *(job.lease / 3 for job in jobs)])

    def _stop_handlers(self, jobs: Sequence[LeasedJob], reason: StopReason) -> None:
        for job in jobs:
            if job.settling:
                continue
            if reason is StopReason.LEASE_LOST:
                if job.settled_in_transaction:
                    # Most likely by its own commit; if not, its outcome will be rejected.
                    continue
                if not self._leased.mark_lost(job):
                    continue
                self._interrupt(job, reason)
            else:
                job.signal.set(reason)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._wait()
                if self._stopped.is_set():
                    return
                self._interval = self.send()
                self._after_heartbeat()
                self._logged_at = -math.inf
            except StoreClosed as error:
                if not self._stopped.is_set():
                    self._stop_worker(error)
                return
            except Exception as error:
                # A worker whose heartbeat has ended would go on, while others count it as dead.
                self._log_failure(error)
                self._leased.queue.error_callbacks.report(error)
                self._interval = min(self._interval, self._max_interval / 4)
                self._stopped.wait(RETRY_DELAY)

    def _wait(self) -> None:
        """Wait until the next heartbeat is due, or a running job may have been cancelled."""
        started = time.monotonic()
        while not self._stopped.is_set():
            left = started + self._interval - time.monotonic()
            if left <= 0 or (self._listener.wait(left) and self._leased.jobs):
                return

    def _log_failure(self, error: Exception) -> None:
        if time.monotonic() < self._logged_at + LOG_INTERVAL:
            return
        self._logged_at = time.monotonic()
        key = self._leased.queue.key
        logger.error("heartbeat for %s failed, retrying: %s", key, error)


Interrupt = Callable[[LeasedJob, StopReason], None]


class LeaseWatchdog:
    """Stops handlers whose leases could not be extended, by the clock of this process.

    While no heartbeat reaches the store, another worker may get the job as soon as its lease
    expires. A lease is counted from when its claim or heartbeat was sent, so it ends here before
    it ends in the store. The outcome is still sent: the token decides whether it counts.
    """

    def __init__(self, leased: LeasedJobs, interrupt: Interrupt, timers: Timers) -> None:
        self._leased = leased
        self._interrupt = interrupt
        self._timers = timers
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._runs_at = math.inf

    def add_lease(self, lease: float) -> None:
        """Watch a new lease of this many seconds."""
        if time.monotonic() + lease < self._runs_at:
            self._set_timer()

    def extend(self, jobs: Iterable[LeasedJob], sent_at: float) -> None:
        """A heartbeat sent at this time has extended these leases."""
        for job in jobs:
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
                self._timer = self._timers.call_later(left, self._stop_expired)

    def _leases_to_watch(self) -> list[LeasedJob]:
        # Of a job that was settled in a transaction, the transaction decides.
        return [
            job
            for job in list(self._leased.jobs)
            if not (job.settling or job.lost or job.settled_in_transaction)
        ]

    def _stop_expired(self) -> None:
        now = time.monotonic()
        for job in self._leases_to_watch():
            if job.leased_until <= now:
                job.leased_until = math.inf  # its handler is stopped only once
                logger.warning(
                    "job %r: its lease could not be extended for %g s; stopping its handler",
                    job.id,
                    job.lease,
                )
                self._interrupt(job, StopReason.LEASE_LOST)
        self._set_timer()
