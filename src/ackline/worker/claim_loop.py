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

from ackline import lifecycle
from ackline.errors import PASSING, StoreClosed, StoreError
from ackline.job import Record
from ackline.lifecycle import Verdict
from ackline.pauses import Pauses
from ackline.queue.consumer import LONGEST_POLL, time_to_next
from ackline.stores.base import Claimed, ClaimRequest, Delivered, DirectDelivery, WaitingClaim
from ackline.worker.demand import Demand
from ackline.worker.held import Held
from ackline.worker.leased_jobs import LeasedJobs
from ackline.worker.outbox import Settled
from ackline.worker.shares import Shares

logger = logging.getLogger("ackline")

THREADS = 2

NOTHING = Delivered([], 0.0)

LINGER = 0.002
"""Seconds that outcomes may wait for others to go with them while handlers are busy."""

SETTLE_DOWN = 0.005
"""Seconds after which to look again whether the executors have taken up what was fetched."""

AT_ONCE = 0.1
"""Timeout for calls that normally return at once."""

RETRIES = (0.05, 5.0)
"""Seconds between tries while the store cannot be reached."""

STANDBY, STANDBY_LOOK = 0.03, 0.005
"""For `STANDBY` seconds after a thread has begun to run a job itself, the other one looks every
`STANDBY_LOOK` seconds whether somebody listens."""


class Phase(enum.Enum):
    """What a thread of a claim loop is doing; the module's docstring explains each."""

    CALLING = enum.auto()
    RESTING = enum.auto()
    LISTENING = enum.auto()
    RUNNING = enum.auto()


class Intake(enum.Enum):
    """Whether the worker takes jobs of a queue."""

    OPEN = enum.auto()
    WITHDRAWING = enum.auto()
    """It claims no more, but the store may still deliver a job."""
    CLOSED = enum.auto()


class ClaimLoop:
    """What the threads of one queue share: how much to claim, and when."""

    def __init__(
        self,
        leased: LeasedJobs,
        worker: str,
        concurrency: int,
        unstarted: Callable[[], int],
        waits_for_processor: Callable[[], bool],
        shares: Shares,
        weight: float,
        give_up: Callable[[StoreClosed], None],
    ) -> None:
        self.leased = leased
        self.queue = queue = leased.queue
        self.batch = queue.store.capabilities.batch
        self.intake = Intake.OPEN
        self.ending = False
        """Whether the threads end once there is nothing left to settle."""
        self.troubled = False
        """Whether the store failed the last time: then other queues need not wait for this one."""
        self.listener = queue.store.listen([queue.key], "ready", queue.handlers.kinds)
        self.listening = threading.Lock()
        """Held by the thread that listens."""
        self._delivery = self.listener if isinstance(self.listener, DirectDelivery) else None
        self._worker = worker
        self._concurrency = concurrency
        self._unstarted = unstarted
        self._waits_for_processor = waits_for_processor
        self._demand = Demand(concurrency, self.batch)
        self._share = shares.add(weight, self._wants)
        self._lock = threading.Lock()
        self._reserved = 0
        """How many jobs the claims under way may bring."""
        self._news = True
        """Whether jobs may have become ready since the last claim began."""
        self._claim_at = 0.0
        self._standby_until = 0.0
        self._threads = [
            ClaimThread(self, f"ackline claims {n} {queue.key}", give_up) for n in range(THREADS)
        ]

    # --- the threads ---

    def start(self) -> None:
        """Begin to claim."""
        for thread in self._threads:
            thread.start()

    def stop_claiming(self) -> None:
        """Claim no more; settling goes on."""
        if self.intake is Intake.OPEN:
            self.intake = Intake.CLOSED if self._delivery is None else Intake.WITHDRAWING
        for thread in self._threads:
            thread.wake()

    def stop(self, timeout: float) -> bool:
        """Settle what is left and end the threads; False if they did not end in time."""
        self.ending = True
        for thread in self._threads:
            thread.wake()
        ended = [thread.join(timeout) for thread in self._threads]
        return all(ended)

    @property
    def goes_on(self) -> bool:
        """Whether its threads have anything left to do."""
        return not self.ending or bool(self.leased.outbox) or self.intake is Intake.WITHDRAWING

    def wake(self) -> None:
        """There are outcomes to settle."""
        if any(thread.is_current for thread in self._threads):
            return  # it will see for itself
        # Preferably one that rests, so that the one that listens goes on waiting for jobs.
        for phase in (Phase.RESTING, Phase.LISTENING):
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

    def longest_rest(self, seconds: float) -> float:
        """How many of these seconds a thread may rest before it looks whether somebody listens."""
        with self._lock:
            standing_by = time.monotonic() < self._standby_until
        return min(seconds, STANDBY_LOOK) if standing_by else seconds

    # --- when to claim ---

    def claim_next(self) -> None:
        """Jobs may have become ready: claim as soon as there is room for them."""
        self._news, self._claim_at = True, 0.0

    def seconds_to_claim(self) -> float:
        """Seconds for which a claim would bring nothing, as far as is known."""
        return max(0.0, self._claim_at - time.monotonic())

    def is_worth_a_call(self, pending: int, want: int) -> bool:
        """Whether to settle so many outcomes and claim so many jobs now, or to wait for more."""
        half = self.batch // 2
        if pending >= half or want >= half:
            return True
        return bool(pending or want) and not self._unstarted()

    # --- how much to claim ---

    def want(self, settling: int) -> int:
        """How many jobs to ask for in a claim that also settles `settling` jobs."""
        if self.intake is not Intake.OPEN:
            return 0
        in_hand = len(self.leased.held) + self._reserved - settling
        return max(0, min(self.batch, self._demand.target - in_hand))

    def _wants(self) -> bool:
        claims = self.want(len(self.leased.outbox)) > 0 and not self.seconds_to_claim()
        return self._waits_for_processor() or (claims and not self.troubled)

    def reserve(self, settling: int) -> int:
        """Decide how many to claim, and tell the other thread; 0 while another queue goes first."""
        # A claim would bring nothing, and callers that wait for an outcome would wait for it, too.
        # But with direct delivery, it is the claim that lets the next job come.
        if settling and self._delivery is None and self.seconds_to_claim():
            return 0
        with self._lock:
            want = self.want(settling)
            if not want or not self._share.take(want):
                return 0
            self._reserved += want
            return want

    def unreserve(self, want: int, claimed: int) -> None:
        """The claim for `want` jobs is over, and brought `claimed`."""
        with self._lock:
            self._reserved -= want
            self._share.give_back(want - claimed)

    # --- calls to the store ---

    def settle_and_claim(self, batch: Sequence[Settled], want: int) -> list[Record]:
        """Settle these outcomes, and claim so many jobs."""
        transitions = [transition for _, transition in batch]
        if not want:
            self._settled(batch, self.queue.apply(transitions))
            return []
        self._news = False
        # Delivered only while a handler can be called: another worker might begin the job at once.
        free = max(0, self._concurrency - len(self.leased.held) + len(batch))
        claimed = self.queue.claim_records(self._request(want, free), transitions)
        self._settled(batch, claimed.verdicts)
        self._plan_claim(claimed, want)
        return claimed.jobs

    def _request(self, limit: int, free: int) -> ClaimRequest:
        request = self.queue.claim_request(limit, None, self.queue.handlers.kinds, self._worker)
        if self._delivery is None:
            return request
        fields = msgspec.structs.asdict(request)
        return WaitingClaim(**fields, listener=self._delivery, free=free)

    def _settled(self, batch: Sequence[Settled], verdicts: Sequence[Verdict]) -> None:
        self.troubled = False
        if batch:
            self._demand.note_ended(len(batch))
            self.leased.settled(batch, verdicts)

    def _plan_claim(self, claimed: Claimed, want: int) -> None:
        """Decide when to claim again, unless news comes before."""
        if len(claimed.jobs) == want or claimed.more:
            self.claim_next()
        elif not self._news:
            self._claim_at = time.monotonic() + time_to_next(claimed)

    def delivered(self) -> Delivered:
        """The jobs that the store has delivered since the last call."""
        if self._delivery is None:
            return NOTHING
        delivered = self._delivery.delivered(self._worker)
        if delivered.jobs:
            self._share.be_given(len(delivered.jobs))
        return delivered

    def begins_withdrawal(self) -> bool:
        """Whether to tell the store to deliver no more; True only once."""
        with self._lock:
            # A claim under way may let a job be delivered: the thread that made it comes here, too.
            if self.intake is not Intake.WITHDRAWING or self._reserved:
                return False
            self.intake = Intake.CLOSED
            return True

    def withdraw(self) -> None:
        """Claim nothing, which ends direct delivery."""
        try:
            self.queue.claim_records(self._request(0, 0))
        except StoreClosed:
            raise
        except Exception:
            # When ending it is too late: the lease of a job on its way will expire.
            self.intake = Intake.CLOSED if self.ending else Intake.WITHDRAWING
            raise


class ClaimThread:
    """One thread of a claim loop."""

    def __init__(self, loop: ClaimLoop, name: str, give_up: Callable[[StoreClosed], None]) -> None:
        self.phase = Phase.CALLING
        self._loop = loop
        self._leased = loop.leased
        self._give_up = give_up
        self._woken = threading.Event()
        self._pauses = Pauses(*RETRIES)
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
            self._thread.join(AT_ONCE)
        if self.phase is not Phase.RUNNING:
            self._thread.join(timeout)
        return self.phase is Phase.RUNNING or not self._thread.is_alive()

    def _run(self) -> None:
        while self._loop.goes_on:
            try:
                self._step()
            except StoreClosed as error:
                if not self._loop.ending:
                    self._give_up(error)
            except Exception as error:
                # A worker whose threads had ended would look alive, and hear of no job.
                self._wait_for_store(error)

    def _step(self) -> None:
        loop, outbox = self._loop, self._leased.outbox
        # Cleared before looking, so that outcomes that come in meanwhile cut the next rest short.
        self._woken.clear()
        outbox.call_again()
        if loop.begins_withdrawal():
            loop.withdraw()
            self._begin(loop.delivered())
            return  # the jobs that it gave back are settled next
        pending = len(outbox)
        want = loop.want(pending)
        if not loop.ending and not loop.is_worth_a_call(pending, want):
            self._rest(LINGER if pending else SETTLE_DOWN if want else LONGEST_POLL)
            if not outbox:
                return
        quiet_for = 0.0 if outbox or loop.ending else loop.seconds_to_claim()
        if quiet_for:
            self._listen(quiet_for)
        else:
            self._call_store()

    def _rest(self, seconds: float) -> None:
        self.phase = Phase.RESTING
        self._woken.wait(self._loop.longest_rest(seconds))
        self.phase = Phase.CALLING

    def _listen(self, seconds: float) -> None:
        loop = self._loop
        if not loop.listening.acquire(blocking=False):
            # One listener is enough: two would both claim every job, one of them in vain.
            self._rest(seconds)
            return
        self.phase = Phase.LISTENING
        try:
            # Without news, the other thread may just have claimed: `seconds_to_claim` knows.
            if not self._woken.is_set() and not loop.ending and loop.listener.wait(seconds):
                loop.claim_next()
        finally:
            self.phase = Phase.CALLING
            loop.listening.release()
        self._begin(loop.delivered())
        if self._leased.outbox:
            self._call_store()  # a quick job has ended: whoever waits for its result is told now

    def _call_store(self) -> None:
        """Settle and claim; only settle while there is nothing to claim."""
        loop, outbox = self._loop, self._leased.outbox
        batch = outbox.take(loop.batch)
        want = loop.reserve(len(batch))
        if not batch and not want:
            self._rest(LINGER)  # the other thread, or another queue, goes first
            return
        jobs: list[Record] = []
        asked_at = time.monotonic()
        try:
            jobs = loop.settle_and_claim(batch, want)
        except StoreClosed:
            self._leased.abandon(batch)
            raise
        except PASSING as error:
            outbox.put_back(batch)
            loop.claim_next()
            self._wait_for_store(error)
            return
        except Exception as error:
            self._settle_singly(batch)
            loop.claim_next()
            self._wait_for_store(error)
            return
        finally:
            loop.unreserve(want, len(jobs))
        self._pauses.reset()
        self._begin(Delivered(jobs, asked_at))
        self._begin(loop.delivered())

    def _begin(self, new: Delivered) -> None:
        """Have jobs run, in this thread if one came alone and is likely to be quick."""
        if not new.jobs:
            return
        self.phase = Phase.RUNNING
        try:
            accept = self._loop.intake is Intake.OPEN
            self._leased.begin(new.jobs, new.leased_at, accept=accept)
        finally:
            self.phase = Phase.CALLING

    def _settle_singly(self, batch: list[Settled]) -> None:
        """Settle one by one: an outcome that the store cannot take must not hold up the others."""
        leased = self._leased
        for held, transition in batch:
            try:
                verdicts = leased.queue.apply([transition])
            except PASSING:
                leased.outbox.put_back([(held, transition)])
            except Exception as error:
                if isinstance(error, StoreError) and not self._takes_steps_of(held):
                    # It takes nothing, as after a change of password: the outcome is not at fault.
                    leased.outbox.put_back([(held, transition)])
                    continue
                logger.exception(
                    "job %r: its outcome cannot be stored; when its lease expires, it is retried",
                    held.id,
                )
                leased.forget(held)
            else:
                leased.settled([(held, transition)], verdicts)

    def _takes_steps_of(self, held: Held) -> bool:
        """Whether the store takes any step of this job now, such as extending its lease."""
        step = lifecycle.extend(held.record, held.lease)
        try:
            self._leased.queue.apply([step])
        except StoreError:
            return False
        return True

    def _wait_for_store(self, error: Exception) -> None:
        self._loop.troubled = True
        logger.error(
            "queue %s: %s; trying again in %.2f s, nothing is lost",
            self._loop.queue.key,
            error,
            self._pauses.length,
            exc_info=None if isinstance(error, PASSING) else error,
        )
        if not self._woken.wait(self._pauses.length):
            # Not if an ended handler has cut the wait short: a busy worker would soon wait longest.
            self._pauses.lengthen()
