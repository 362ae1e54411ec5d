"""The claim loop: settles outcomes and claims the next jobs, in one call to the store.

Each queue has one, with two threads: while one waits for the store, the other handles what has
arrived since. A thread is always in one of four phases:

    CALLING     in a call to the store, or about to decide what to do
    WAITING     has nothing to do, or waits for more outcomes: until it is woken
    LISTENING   a claim would return nothing: until jobs may be ready; only one thread listens
    RUNNING     starts jobs; a quick one that arrived alone it runs itself

An idle worker is thus LISTENING. On a store with direct delivery (see `DirectDelivery`), a new job
is delivered to the listener itself. Its thread starts the job, and the call that settles it is also
the claim after which the next one can be delivered.

Waking a thread takes as long as a quick job does. So the other thread is not woken to listen for
each job that is RUNNING; while such jobs arrive, it checks every few milliseconds whether one takes
long after all.

ClaimState.CLAIMING ──► ENDING_DELIVERY ──► STOPPED: when the worker stops, it claims no more jobs,
and a claim for 0 jobs ends direct delivery. Jobs that it returns are released, and all outcomes
are still settled.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from ackline.core import lifecycle
from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import TRANSIENT_ERRORS, StoreClosed, StoreError
from ackline.core.job import Record
from ackline.core.lifecycle import Verdict
from ackline.queue.consume import MAX_POLL_INTERVAL, poll_interval
from ackline.stores.contract import (
    ClaimRequest,
    ClaimResult,
    DeliverableClaim,
    DeliveredJobs,
    DirectDelivery,
)
from ackline.worker.fair_share import FairShare
from ackline.worker.leased_jobs import EndedJob, LeasedJob, LeasedJobs
from ackline.worker.prefetch import Prefetch

logger = logging.getLogger("ackline")

THREADS = 2

NO_DELIVERY = DeliveredJobs([], 0.0)

LINGER = 0.002
"""Seconds that outcomes may wait for others to be sent with them while handlers are busy."""

EXECUTOR_RECHECK = 0.005
"""Seconds between checks whether the executors have started the buffered jobs."""

BUSY_JOIN_TIMEOUT = 0.1
"""Seconds to wait at a stop for a thread that is running a job."""

RETRY_DELAYS = (0.05, 5.0)
"""First and longest delay in seconds between tries while the store is unavailable."""

STANDBY, STANDBY_POLL = 0.03, 0.005
"""For `STANDBY` seconds after a thread has started to run a job itself, the other one checks every
`STANDBY_POLL` seconds whether a thread is listening."""


class Phase(enum.Enum):
    """What a thread of a claim loop is doing; see the module's docstring."""

    CALLING = enum.auto()
    WAITING = enum.auto()
    LISTENING = enum.auto()
    RUNNING = enum.auto()


class ClaimState(enum.Enum):
    """Whether the worker claims jobs of a queue."""

    CLAIMING = enum.auto()
    ENDING_DELIVERY = enum.auto()
    """It claims no more jobs, but the store may still deliver one."""
    STOPPED = enum.auto()


class ClaimLoop:
    """What the threads of one queue share: how much to claim, and when."""

    def __init__(
        self,
        leased: LeasedJobs,
        worker: str,
        concurrency: int,
        buffered_jobs: Callable[[], int],
        waits_for_cpu: Callable[[], bool],
        fair_share: FairShare,
        weight: float,
        stop_worker: Callable[[StoreClosed], None],
    ) -> None:
        self.leased = leased
        self.queue = queue = leased.queue
        self.batch = queue.store.capabilities.batch_size
        self.state = ClaimState.CLAIMING
        self.stopping = False
        """Whether the threads end when nothing is left to settle."""
        self.store_failing = False
        """Whether the last call to the store failed: then other queues do not wait for this one."""
        self.listener = queue.store.listen([queue.key], "ready", queue.handlers.kinds_to_claim)
        self.listen_lock = threading.Lock()
        """Locked by the thread that listens."""
        self._delivery = self.listener if isinstance(self.listener, DirectDelivery) else None
        self._worker = worker
        self._concurrency = concurrency
        self._buffered_jobs = buffered_jobs
        self._waits_for_cpu = waits_for_cpu
        self._prefetch = Prefetch(concurrency, self.batch)
        self._share = fair_share.add(weight, self._wants_jobs)
        self._lock = threading.Lock()
        self.claims = 0
        """Claims so far."""
        self.claimed_jobs = 0
        """Jobs that were claimed or delivered so far."""
        self._reserved = 0
        """How many jobs the current claims may return."""
        self._may_have_jobs = True
        """Whether jobs may have become ready since the last claim began."""
        self._claim_at = 0.0
        self._standby_until = 0.0
        self._threads = [
            ClaimThread(self, f"ackline claims {n} {queue.key}", stop_worker)
            for n in range(THREADS)
        ]

    # --- the threads ---

    def start(self) -> None:
        """Start claiming."""
        for thread in self._threads:
            thread.start()

    def stop_claiming(self) -> None:
        """Stop claiming; outcomes are still settled."""
        if self.state is ClaimState.CLAIMING:
            self.state = (
                ClaimState.STOPPED if self._delivery is None else ClaimState.ENDING_DELIVERY
            )
        for thread in self._threads:
            thread.wake()

    def stop(self, timeout: float) -> bool:
        """Settle what is left and stop the threads; False if they did not stop in time."""
        self.stopping = True
        for thread in self._threads:
            thread.wake()
        ended = [thread.join(timeout) for thread in self._threads]
        return all(ended)

    @property
    def has_work(self) -> bool:
        """Whether its threads have to go on."""
        return (
            not self.stopping
            or bool(self.leased.settle_buffer)
            or self.state is ClaimState.ENDING_DELIVERY
        )

    def wake(self) -> None:
        """Wake a thread to settle outcomes."""
        if any(thread.is_current for thread in self._threads):
            return  # it is about to read the buffer
        # Preferably one that is waiting, so that the other one goes on listening for jobs.
        for phase in (Phase.WAITING, Phase.LISTENING):
            for thread in self._threads:
                if thread.phase is phase:
                    thread.wake()
                    return
        for thread in self._threads:
            thread.wake()

    def before_inline_run(self) -> None:
        """Have the other thread listen if the job that this one is about to run takes long."""
        with self._lock:
            now = time.monotonic()
            on_standby = now < self._standby_until
            self._standby_until = now + STANDBY
        if on_standby:
            return
        for thread in self._threads:
            # Also one that seems to be busy: it may be about to wait.
            if not thread.is_current:
                thread.wake()

    def max_wait(self, seconds: float) -> float:
        """Limit a wait, so that a thread on standby checks whether the other one is listening."""
        with self._lock:
            on_standby = time.monotonic() < self._standby_until
        return min(seconds, STANDBY_POLL) if on_standby else seconds

    # --- when to claim ---

    def claim_soon(self) -> None:
        """Claim as soon as possible, because jobs may have become ready."""
        self._may_have_jobs, self._claim_at = True, 0.0

    def seconds_to_claim(self) -> float:
        """Seconds until a claim may return jobs, as far as is known."""
        return max(0.0, self._claim_at - time.monotonic())

    def should_call_store(self, pending: int, want: int) -> bool:
        """Whether to settle and claim this many jobs now, or to wait for more."""
        half = self.batch // 2
        if pending >= half or want >= half:
            return True
        return bool(pending or want) and not self._buffered_jobs()

    # --- how much to claim ---

    def claim_size(self, settling: int) -> int:
        """How many jobs to claim in a call that also settles `settling` jobs."""
        if self.state is not ClaimState.CLAIMING:
            return 0
        leased = len(self.leased.jobs) + self._reserved - settling
        return max(0, min(self.batch, self._prefetch.target - leased))

    def _wants_jobs(self) -> bool:
        claims = self.claim_size(len(self.leased.settle_buffer)) > 0 and not self.seconds_to_claim()
        return self._waits_for_cpu() or (claims and not self.store_failing)

    def reserve(self, settling: int) -> int:
        """Decide how many jobs to claim, and count them; 0 while another queue goes first."""
        # A claim would return nothing, and only delay the outcomes that callers wait for.
        # But with direct delivery, it is the claim after which the next job can be delivered.
        if settling and self._delivery is None and self.seconds_to_claim():
            return 0
        with self._lock:
            want = self.claim_size(settling)
            if not want or not self._share.try_take(want):
                return 0
            self._reserved += want
            return want

    def unreserve(self, want: int, claimed: int) -> None:
        """Uncount a claim for `want` jobs that has returned `claimed`."""
        with self._lock:
            self._reserved -= want
            self.claims += want > 0
            self.claimed_jobs += claimed
            self._share.return_unused(want - claimed)

    # --- calls to the store ---

    def settle_and_claim(self, batch: Sequence[EndedJob], want: int) -> list[Record]:
        """Settle these outcomes, and claim up to `want` jobs."""
        transitions = [transition for _, transition in batch]
        if self.leased.progress.pending:
            self.leased.progress.flush(job for job, _ in batch)
        if not want:
            self._settled(batch, self.queue.apply(transitions))
            return []
        self._may_have_jobs = False
        # Delivered only while a handler is free: another worker might start the job immediately.
        free = max(0, self._concurrency - len(self.leased.jobs) + len(batch))
        claimed = self.queue.claim_records(self._request(want, free), transitions)
        self._settled(batch, claimed.verdicts)
        self._schedule_claim(claimed, want)
        return claimed.jobs

    def _request(self, limit: int, free: int) -> ClaimRequest:
        kinds = self.queue.handlers.kinds_to_claim
        request = self.queue.claim_request(limit, None, kinds, self._worker)
        if self._delivery is None:
            return request
        fields = msgspec.structs.asdict(request)
        return DeliverableClaim(**fields, listener=self._delivery, free_capacity=free)

    def _settled(self, batch: Sequence[EndedJob], verdicts: Sequence[Verdict]) -> None:
        self.store_failing = False
        if batch:
            self._prefetch.count_settled(len(batch))
            self.leased.record_verdicts(batch, verdicts)

    def _schedule_claim(self, claimed: ClaimResult, want: int) -> None:
        """Decide when to claim again, unless jobs may be ready earlier."""
        if len(claimed.jobs) == want or claimed.may_have_more:
            self.claim_soon()
        elif not self._may_have_jobs:
            self._claim_at = time.monotonic() + poll_interval(claimed)

    def take_delivered(self) -> DeliveredJobs:
        """The jobs that the store has delivered since the last call."""
        if self._delivery is None:
            return NO_DELIVERY
        delivered = self._delivery.delivered(self._worker)
        if delivered.jobs:
            with self._lock:
                self.claimed_jobs += len(delivered.jobs)
            self._share.count_delivered(len(delivered.jobs))
        return delivered

    def should_end_delivery(self) -> bool:
        """Whether to end direct delivery now; True only once."""
        with self._lock:
            # A current claim may still allow a delivery: the thread that made it checks again.
            if self.state is not ClaimState.ENDING_DELIVERY or self._reserved:
                return False
            self.state = ClaimState.STOPPED
            return True

    def end_delivery(self) -> None:
        """Claim 0 jobs, which ends direct delivery."""
        try:
            self.queue.claim_records(self._request(0, 0))
        except StoreClosed:
            raise
        except Exception:
            # At the end it is too late to retry: the lease of a job delivered now will expire.
            self.state = ClaimState.STOPPED if self.stopping else ClaimState.ENDING_DELIVERY
            raise


class ClaimThread:
    """One thread of a claim loop."""

    def __init__(
        self, loop: ClaimLoop, name: str, stop_worker: Callable[[StoreClosed], None]
    ) -> None:
        self.phase = Phase.CALLING
        self._loop = loop
        self._leased = loop.leased
        self._stop_worker = stop_worker
        self._woken = threading.Event()
        self._retry_delay = ExponentialDelay(*RETRY_DELAYS)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make it check what there is to do."""
        if not self._woken.is_set():
            self._woken.set()
            if self.phase is Phase.LISTENING:
                self._loop.listener.wake()

    @property
    def is_current(self) -> bool:
        """Whether this is called in the thread itself, which will check what to do anyway."""
        return self._thread is threading.current_thread()

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; False if it did not.

        A thread in a handler that does not end is left behind, like those of an executor: the
        other one settles the remaining outcomes.
        """
        if self._thread.ident is None:
            return True
        if self.phase is Phase.RUNNING:
            self._thread.join(BUSY_JOIN_TIMEOUT)
        if self.phase is not Phase.RUNNING:
            self._thread.join(timeout)
        return self.phase is Phase.RUNNING or not self._thread.is_alive()

    def _run(self) -> None:
        while self._loop.has_work:
            try:
                self._step()
            except StoreClosed as error:
                if not self._loop.stopping:
                    self._stop_worker(error)
            except Exception as error:
                # Otherwise the thread would end, and the worker would look alive but run no jobs.
                self._wait_for_store(error)

    def _step(self) -> None:
        loop, buffer = self._loop, self._leased.settle_buffer
        # Cleared before the buffer is read, so that later outcomes end the next wait.
        self._woken.clear()
        buffer.rearm()
        if loop.should_end_delivery():
            loop.end_delivery()
            self._run_jobs(loop.take_delivered())
            return  # the jobs that it released are settled next
        pending = len(buffer)
        want = loop.claim_size(pending)
        if not loop.stopping and not loop.should_call_store(pending, want):
            self._wait(LINGER if pending else EXECUTOR_RECHECK if want else MAX_POLL_INTERVAL)
            if not buffer:
                return
        seconds_to_claim = 0.0 if buffer or loop.stopping else loop.seconds_to_claim()
        if seconds_to_claim:
            self._listen(seconds_to_claim)
        else:
            self._call_store()

    def _wait(self, seconds: float) -> None:
        self.phase = Phase.WAITING
        self._woken.wait(self._loop.max_wait(seconds))
        self.phase = Phase.CALLING

    def _listen(self, seconds: float) -> None:
        loop = self._loop
        if not loop.listen_lock.acquire(blocking=False):
            # One listener is enough: with two, both would claim for every new job.
            self._wait(seconds)
            return
        self.phase = Phase.LISTENING
        try:
            # If it was not notified, the other thread may have claimed: see `seconds_to_claim`.
            if not self._woken.is_set() and not loop.stopping and loop.listener.wait(seconds):
                loop.claim_soon()
        finally:
            self.phase = Phase.CALLING
            loop.listen_lock.release()
        self._run_jobs(loop.take_delivered())
        if self._leased.settle_buffer:
            self._call_store()  # a quick job has ended: its result is stored without delay

    def _call_store(self) -> None:
        """Settle and claim, or only settle if there is nothing to claim."""
        loop, buffer = self._loop, self._leased.settle_buffer
        batch = buffer.take(loop.batch)
        want = loop.reserve(len(batch))
        if not batch and not want:
            self._wait(LINGER)  # the other thread or another queue goes first
            return
        jobs: list[Record] = []
        sent_at = time.monotonic()
        try:
            jobs = loop.settle_and_claim(batch, want)
        except StoreClosed:
            self._leased.drop_unstorable(batch)
            raise
        except TRANSIENT_ERRORS as error:
            buffer.put_back(batch)
            loop.claim_soon()
            self._wait_for_store(error)
            return
        except Exception as error:
            self._settle_one_by_one(batch)
            loop.claim_soon()
            self._wait_for_store(error)
            return
        finally:
            loop.unreserve(want, len(jobs))
        self._retry_delay.reset()
        self._run_jobs(DeliveredJobs(jobs, sent_at))
        self._run_jobs(loop.take_delivered())

    def _run_jobs(self, new: DeliveredJobs) -> None:
        """Have jobs run, in this thread if one arrived alone and is likely to be quick."""
        if not new.jobs:
            return
        self.phase = Phase.RUNNING
        try:
            accept = self._loop.state is ClaimState.CLAIMING
            self._leased.start(new.jobs, new.leased_at, accept=accept)
        finally:
            self.phase = Phase.CALLING

    def _settle_one_by_one(self, batch: list[EndedJob]) -> None:
        """Settle one by one, so that an outcome that is rejected does not block the others."""
        leased = self._leased
        for job, transition in batch:
            try:
                verdicts = leased.queue.apply([transition])
            except TRANSIENT_ERRORS:
                leased.settle_buffer.put_back([(job, transition)])
            except Exception as error:
                if isinstance(error, StoreError) and not self._accepts_transitions_of(job):
                    # It rejects everything, as after a change of password, not only this outcome.
                    leased.settle_buffer.put_back([(job, transition)])
                    continue
                logger.exception(
                    "job %r: could not store its outcome; it is retried when its lease expires",
                    job.id,
                )
                leased.forget(job)
            else:
                leased.record_verdicts([(job, transition)], verdicts)

    def _accepts_transitions_of(self, job: LeasedJob) -> bool:
        """Whether the store accepts other transitions of this job, such as extending its lease."""
        try:
            self._leased.queue.apply([lifecycle.extend(job.record, job.lease)])
        except StoreError:
            return False
        return True

    def _wait_for_store(self, error: Exception) -> None:
        self._loop.store_failing = True
        self._loop.queue.error_callbacks.report(error)
        logger.error(
            "queue %s: %s; retrying in %.2f s (no job is lost)",
            self._loop.queue.key,
            error,
            self._retry_delay.current,
            exc_info=None if isinstance(error, TRANSIENT_ERRORS) else error,
        )
        if not self._woken.wait(self._retry_delay.current):
            # Not if an outcome ended the wait: a busy worker would soon wait the longest delay.
            self._retry_delay.increase()
