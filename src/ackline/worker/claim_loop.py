"""The claim loop: takes outcomes to the store and brings back the next jobs, in one call.

Each queue has one, with two threads: while one waits for the store, the other takes what has come
in since. A thread is always in one of four phases:

    CALLING     in a call to the store, or about to decide what to do
    RESTING     nothing to do now, or more outcomes should come first: until it is woken
    LISTENING   a claim would bring nothing: until there is news of jobs; only one of them listens
    RUNNING     begins jobs; a quick one that came alone it runs itself

A worker that has nothing to do is thus LISTENING. On a store with direct delivery (see
`DirectDelivery`), a new job comes to the listener itself. Its thread begins the job, and the call
that settles it is also the claim after which the next one can be delivered.

Waking a thread takes as long as a quick job does. So the other thread is not woken to listen for
each job that is RUNNING; while such jobs come, it looks every few milliseconds whether one takes
long after all.

Intake.OPEN ──► WITHDRAWING ──► CLOSED: when the worker stops, nothing more is claimed, and a claim
for no jobs ends direct delivery. What it brings is given back; outcomes are settled to the last.
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
from ackline.worker.leased_jobs import LeasedJob, LeasedJobs, Settled
from ackline.worker.prefetch import Prefetch

logger = logging.getLogger("ackline")

THREADS = 2

NO_DELIVERY = DeliveredJobs([], 0.0)

LINGER = 0.002
"""Seconds that outcomes may wait for others to go with them while handlers are busy."""

EXECUTOR_RECHECK = 0.005
"""Seconds after which to look again whether the executors have taken up what was fetched."""

BUSY_JOIN_TIMEOUT = 0.1
"""Timeout for calls that normally return at once."""

RETRY_DELAYS = (0.05, 5.0)
"""Seconds between tries while the store cannot be reached."""

STANDBY, STANDBY_POLL = 0.03, 0.005
"""For `STANDBY` seconds after a thread has begun to run a job itself, the other one looks every
`STANDBY_POLL` seconds whether somebody listens."""


class Phase(enum.Enum):
    """What a thread of a claim loop is doing; the module's docstring explains each."""

    CALLING = enum.auto()
    WAITING = enum.auto()
    LISTENING = enum.auto()
    RUNNING = enum.auto()


class ClaimState(enum.Enum):
    """Whether the worker takes jobs of a queue."""

    CLAIMING = enum.auto()
    ENDING_DELIVERY = enum.auto()
    """It claims no more, but the store may still deliver a job."""
    STOPPED = enum.auto()


class ClaimLoop:
    """What the threads of one queue share: how much to claim, and when."""

    def __init__(
        self,
        leased: LeasedJobs,
        worker: str,
        concurrency: int,
        buffered_jobs: Callable[[], int],
        waits_for_processor: Callable[[], bool],
        shares: FairShare,
        weight: float,
        stop_worker: Callable[[StoreClosed], None],
    ) -> None:
        self.leased = leased
        self.queue = queue = leased.queue
        self.batch = queue.store.capabilities.batch_size
        self.state = ClaimState.CLAIMING
        self.stopping = False
        """Whether the threads end once there is nothing left to settle."""
        self.store_failing = False
        """Whether the store failed the last time: then other queues need not wait for this one."""
        self.listener = queue.store.listen([queue.key], "ready", queue.handlers.kinds)
        self.listen_lock = threading.Lock()
        """Held by the thread that listens."""
        self._delivery = self.listener if isinstance(self.listener, DirectDelivery) else None
        self._worker = worker
        self._concurrency = concurrency
        self._unstarted = buffered_jobs
        self._waits_for_processor = waits_for_processor
        self._prefetch = Prefetch(concurrency, self.batch)
        self._share = shares.add(weight, self._wants_jobs)
        self._lock = threading.Lock()
        self._reserved = 0
        """How many jobs the claims under way may bring."""
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
        """Begin to claim."""
        for thread in self._threads:
            thread.start()

    def stop_claiming(self) -> None:
        """Claim no more; settling goes on."""
        if self.state is ClaimState.CLAIMING:
            self.state = (
                ClaimState.STOPPED if self._delivery is None else ClaimState.ENDING_DELIVERY
            )
        for thread in self._threads:
            thread.wake()

    def stop(self, timeout: float) -> bool:
        """Settle what is left and end the threads; False if they did not end in time."""
        self.stopping = True
        for thread in self._threads:
            thread.wake()
        ended = [thread.join(timeout) for thread in self._threads]
        return all(ended)

    @property
    def has_work(self) -> bool:
        """Whether its threads have anything left to do."""
        return (
            not self.stopping
            or bool(self.leased.settle_buffer)
            or self.state is ClaimState.ENDING_DELIVERY
        )

    def wake(self) -> None:
        """There are outcomes to settle."""
        if any(thread.is_current for thread in self._threads):
            return  # it will see for itself
        # Preferably one that rests, so that the one that listens goes on waiting for jobs.
        for phase in (Phase.WAITING, Phase.LISTENING):
            for thread in self._threads:
                if thread.phase is phase:
                    thread.wake()
                    return
        for thread in self._threads:
            thread.wake()

    def before_running(self) -> None:
        """The current thread is about to run a job: have the other one listen, if it takes long."""
        with self._lock:
            now = time.monotonic()
            standing_by = now < self._standby_until
            self._standby_until = now + STANDBY
        if standing_by:
            return
        for thread in self._threads:
            # Also one that seems to be busy: it may be about to rest.
            if not thread.is_current:
                thread.wake()

    def max_wait(self, seconds: float) -> float:
        """How many of these seconds a thread may rest before it looks whether somebody listens."""
        with self._lock:
            standing_by = time.monotonic() < self._standby_until
        return min(seconds, STANDBY_POLL) if standing_by else seconds

    # --- when to claim ---

    def claim_soon(self) -> None:
        """Jobs may have become ready: claim as soon as there is room for them."""
        self._may_have_jobs, self._claim_at = True, 0.0

    def seconds_to_claim(self) -> float:
        """Seconds for which a claim would bring nothing, as far as is known."""
        return max(0.0, self._claim_at - time.monotonic())

    def should_call_store(self, pending: int, want: int) -> bool:
        """Whether to settle so many outcomes and claim so many jobs now, or to wait for more."""
        half = self.batch // 2
        if pending >= half or want >= half:
            return True
        return bool(pending or want) and not self._unstarted()

    # --- how much to claim ---

    def claim_size(self, settling: int) -> int:
        """How many jobs to ask for in a claim that also settles `settling` jobs."""
        if self.state is not ClaimState.CLAIMING:
            return 0
        in_hand = len(self.leased.jobs) + self._reserved - settling
        return max(0, min(self.batch, self._prefetch.target - in_hand))

    def _wants_jobs(self) -> bool:
        claims = self.claim_size(len(self.leased.settle_buffer)) > 0 and not self.seconds_to_claim()
        return self._waits_for_processor() or (claims and not self.store_failing)

    def reserve(self, settling: int) -> int:
        """Decide how many to claim, and tell the other thread; 0 while another queue goes first."""
        # A claim would bring nothing, and callers that wait for an outcome would wait for it, too.
        # But with direct delivery, it is the claim that lets the next job come.
        if settling and self._delivery is None and self.seconds_to_claim():
            return 0
        with self._lock:
            want = self.claim_size(settling)
            if not want or not self._share.try_take(want):
                return 0
            self._reserved += want
            return want

    def unreserve(self, want: int, claimed: int) -> None:
        """The claim for `want` jobs is over, and brought `claimed`."""
        with self._lock:
            self._reserved -= want
            self._share.return_unused(want - claimed)

    # --- calls to the store ---

    def settle_and_claim(self, batch: Sequence[Settled], want: int) -> list[Record]:
        """Settle these outcomes, and claim so many jobs."""
        transitions = [transition for _, transition in batch]
        if not want:
            self._settled(batch, self.queue.apply(transitions))
            return []
        self._may_have_jobs = False
        # Delivered only while a handler can be called: another worker might begin the job at once.
        free = max(0, self._concurrency - len(self.leased.jobs) + len(batch))
        claimed = self.queue.claim_records(self._request(want, free), transitions)
        self._settled(batch, claimed.verdicts)
        self._schedule_claim(claimed, want)
        return claimed.jobs

    def _request(self, limit: int, free: int) -> ClaimRequest:
        request = self.queue.claim_request(limit, None, self.queue.handlers.kinds, self._worker)
        if self._delivery is None:
            return request
        fields = msgspec.structs.asdict(request)
        return DeliverableClaim(**fields, listener=self._delivery, free_capacity=free)

    def _settled(self, batch: Sequence[Settled], verdicts: Sequence[Verdict]) -> None:
        self.store_failing = False
        if batch:
            self._prefetch.count_settled(len(batch))
            self.leased.record_verdicts(batch, verdicts)

    def _schedule_claim(self, claimed: ClaimResult, want: int) -> None:
        """Decide when to claim again, unless news comes before."""
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
            self._share.count_delivered(len(delivered.jobs))
        return delivered

    def should_end_delivery(self) -> bool:
        """Whether to tell the store to deliver no more; True only once."""
        with self._lock:
            # A claim under way may let a job be delivered: the thread that made it comes here, too.
            if self.state is not ClaimState.ENDING_DELIVERY or self._reserved:
                return False
            self.state = ClaimState.STOPPED
            return True

    def end_delivery(self) -> None:
        """Claim nothing, which ends direct delivery."""
        try:
            self.queue.claim_records(self._request(0, 0))
        except StoreClosed:
            raise
        except Exception:
            # When ending it is too late: the lease of a job on its way will expire.
            self.state = ClaimState.STOPPED if self.stopping else ClaimState.ENDING_DELIVERY
            raise


class ClaimThread:
    """One thread of a claim loop."""

    def __init__(self, loop: ClaimLoop, name: str, give_up: Callable[[StoreClosed], None]) -> None:
        self.phase = Phase.CALLING
        self._loop = loop
        self._leased = loop.leased
        self._give_up = give_up
        self._woken = threading.Event()
        self._retry_delay = ExponentialDelay(*RETRY_DELAYS)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to do."""
        if not self._woken.is_set():
            self._woken.set()
            if self.phase is Phase.LISTENING:
                self._loop.listener.wake()

    @property
    def is_current(self) -> bool:
        """Whether this is called in this very thread, which will look by itself what to do."""
        return self._thread is threading.current_thread()

    def join(self, timeout: float) -> bool:
        """Wait for its end; False if it did not end.

        One in a handler that does not end is left behind, as an executor's are: the other one
        settles the rest.
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
                    self._give_up(error)
            except Exception as error:
                # A worker whose threads had ended would look alive, and hear of no job.
                self._wait_for_store(error)

    def _step(self) -> None:
        loop, outbox = self._loop, self._leased.settle_buffer
        # Cleared before looking, so that outcomes that come in meanwhile cut the next rest short.
        self._woken.clear()
        outbox.rearm()
        if loop.should_end_delivery():
            loop.end_delivery()
            self._run_jobs(loop.take_delivered())
            return  # the jobs that it gave back are settled next
        pending = len(outbox)
        want = loop.claim_size(pending)
        if not loop.stopping and not loop.should_call_store(pending, want):
            self._wait(LINGER if pending else EXECUTOR_RECHECK if want else MAX_POLL_INTERVAL)
            if not outbox:
                return
        seconds_to_claim = 0.0 if outbox or loop.stopping else loop.seconds_to_claim()
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
            # One listener is enough: two would both claim every job, one of them in vain.
            self._wait(seconds)
            return
        self.phase = Phase.LISTENING
        try:
            # Without news, the other thread may just have claimed: `seconds_to_claim` knows.
            if not self._woken.is_set() and not loop.stopping and loop.listener.wait(seconds):
                loop.claim_soon()
        finally:
            self.phase = Phase.CALLING
            loop.listen_lock.release()
        self._run_jobs(loop.take_delivered())
        if self._leased.settle_buffer:
            self._call_store()  # a quick job has ended: whoever waits for its result is told now

    def _call_store(self) -> None:
        """Settle and claim; only settle while there is nothing to claim."""
        loop, outbox = self._loop, self._leased.settle_buffer
        batch = outbox.take(loop.batch)
        want = loop.reserve(len(batch))
        if not batch and not want:
            self._wait(LINGER)  # the other thread, or another queue, goes first
            return
        jobs: list[Record] = []
        asked_at = time.monotonic()
        try:
            jobs = loop.settle_and_claim(batch, want)
        except StoreClosed:
            self._leased.drop_unstorable(batch)
            raise
        except TRANSIENT_ERRORS as error:
            outbox.put_back(batch)
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
        self._run_jobs(DeliveredJobs(jobs, asked_at))
        self._run_jobs(loop.take_delivered())

    def _run_jobs(self, new: DeliveredJobs) -> None:
        """Have jobs run, in this thread if one came alone and is likely to be quick."""
        if not new.jobs:
            return
        self.phase = Phase.RUNNING
        try:
            accept = self._loop.state is ClaimState.CLAIMING
            self._leased.start(new.jobs, new.leased_at, accept=accept)
        finally:
            self.phase = Phase.CALLING

    def _settle_one_by_one(self, batch: list[Settled]) -> None:
        """Settle one by one: an outcome that the store cannot take must not hold up the others."""
        leased = self._leased
        for held, transition in batch:
            try:
                verdicts = leased.queue.apply([transition])
            except TRANSIENT_ERRORS:
                leased.settle_buffer.put_back([(held, transition)])
            except Exception as error:
                if isinstance(error, StoreError) and not self._accepts_transitions_of(held):
                    # It takes nothing, as after a change of password: the outcome is not at fault.
                    leased.settle_buffer.put_back([(held, transition)])
                    continue
                logger.exception(
                    "job %r: its outcome cannot be stored; when its lease expires, it is retried",
                    held.id,
                )
                leased.forget(held)
            else:
                leased.record_verdicts([(held, transition)], verdicts)

    def _accepts_transitions_of(self, held: LeasedJob) -> bool:
        """Whether the store takes any step of this job now, such as extending its lease."""
        step = lifecycle.extend(held.record, held.lease)
        try:
            self._leased.queue.apply([step])
        except StoreError:
            return False
        return True

    def _wait_for_store(self, error: Exception) -> None:
        self._loop.store_failing = True
        logger.error(
            "queue %s: %s; trying again in %.2f s, nothing is lost",
            self._loop.queue.key,
            error,
            self._retry_delay.current,
            exc_info=None if isinstance(error, TRANSIENT_ERRORS) else error,
        )
        if not self._woken.wait(self._retry_delay.current):
            # Not if an ended handler has cut the wait short: a busy worker would soon wait longest.
            self._retry_delay.increase()
