"""What a worker holds of one queue."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ackline import lifecycle
from ackline.config import Resolved
from ackline.job import NO_OPTIONS, Record, State
from ackline.lifecycle import Transition, Verdict, note_of
from ackline.queue import Handler, Queue
from ackline.stores.base import Claimed, ClaimRequest, Handing, WaitingClaim
from ackline.worker.demand import Demand
from ackline.worker.held import Held
from ackline.worker.outbox import Outbox, Settled
from ackline.worker.running import NotCommitted
from ackline.worker.shares import Shares

logger = logging.getLogger("ackline")

LIVELY, NAP = 0.03, 0.005
"""For `LIVELY` seconds after a courier has begun to run a job, others check every `NAP` seconds
whether it is back: waking one of them for each job would take as long as the job."""


class Holdings:
    """The leased jobs of one queue: how many are wanted, and what becomes of them."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        worker: str,
        concurrency: int,
        submit: Callable[[Sequence[Held]], None],
        unstarted: Callable[[], int],
        waits_for_processor: Callable[[], bool],
        shares: Shares,
        weight: float,
    ) -> None:
        self.queue = queue
        self.worker = worker
        self.batch = queue.store.capabilities.batch
        self.held: set[Held] = set()
        self.outbox = Outbox(self.batch // 2, lambda: not unstarted())
        self.unstarted = unstarted
        self.claiming = True
        self._hands_over = queue.store.capabilities.hands_over
        self.waiting = False
        """Whether the store may hand a job over at any moment."""
        self.handed_since_claim = False
        """Whether a job was handed over since the last claim: the next one needs another claim."""
        self._last_claim: WaitingClaim | None = None
        """The last request that was made from the queue's settings; reused while all is quiet."""
        self._news = True
        self._look_at = 0.0
        self.listener = queue.store.listen([queue.key], "ready", queue.handlers.kinds)
        self._handing = self.listener if isinstance(self.listener, Handing) else None
        self.listening = threading.Lock()
        """Held by the courier that waits for news of jobs."""
        self._submit = submit
        self._concurrency = concurrency
        self._demand = Demand(concurrency, self.batch)
        self._reserved = 0
        self._lively_until = 0.0
        self._lock = threading.Lock()
        self._waits_for_processor = waits_for_processor
        self.troubled = False
        """Whether the store failed the last time: then other queues need not wait for this one."""
        self._share = shares.add(weight, self._wants)

    # --- whether there is something to claim ---

    def note_news(self) -> None:
        """Jobs may have become ready."""
        self._news, self._look_at = True, 0.0

    def begin_claim(self) -> None:
        """A claim begins: jobs that become ready from now on are news again."""
        self._news = self.handed_since_claim = False

    def end_claim(self, quiet_for: float) -> None:
        """The claim brought too few: without news, there are no more for `quiet_for` seconds."""
        if not self._news:
            self._look_at = time.monotonic() + quiet_for

    def quiet_for(self) -> float:
        """Seconds for which a claim would bring nothing, as far as is known."""
        return max(0.0, self._look_at - time.monotonic())

    # --- which courier listens for news ---

    def lend(self) -> bool:
        """A courier is about to run a job; returns whether to wake another to listen meanwhile."""
        with self._lock:
            now = time.monotonic()
            resting = now >= self._lively_until
            self._lively_until = now + LIVELY
            return resting

    def nap(self, seconds: float) -> float:
        """How many of these seconds a courier may rest before it checks whether another listens."""
        with self._lock:
            return min(seconds, NAP) if time.monotonic() < self._lively_until else seconds

    # --- jobs that the store hands over ---

    def await_more(self) -> None:
        """A claim brought too few: the store may hand over the next job."""
        self.waiting = self._hands_over

    def handed(self) -> Claimed | None:
        """What the store has handed over, if anything."""
        claimed = None if self._handing is None else self._handing.handed(self.worker)
        if claimed is not None:
            self.handed_since_claim = True
            self._share.be_given(len(claimed.jobs))
        return claimed

    def withdraw(self) -> bool:
        """Whether to tell the store to hand over no more, as the worker stops; True only once."""
        with self._lock:
            # A claim under way may ask for more: the courier that made it comes here, too.
            if self.claiming or not self.waiting or self._reserved:
                return False
            self.waiting = False
            return True

    # --- how much to claim ---

    def want(self, settling: int) -> int:
        """How many jobs to ask for in a claim that also settles `settling` jobs."""
        if not self.claiming:
            return 0
        in_hand = len(self.held) + self._reserved - settling
        return max(0, min(self.batch, self._demand.target - in_hand))

    def _wants(self) -> bool:
        claims = self.want(len(self.outbox)) > 0 and not self.quiet_for()
        return self._waits_for_processor() or (claims and not self.troubled)

    def reserve(self, settling: int) -> int:
        """Decide how many to claim, and tell other couriers; 0 while another queue goes first."""
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

    def request(self, limit: int, settling: int = 0) -> ClaimRequest:
        """A claim for the kinds that have a handler here, which also settles `settling` jobs."""
        # Handed over only while a lane is free: another worker might begin the job at once.
        places = max(0, self._concurrency - len(self.held) + settling)
        if self._last_claim is not None and settling and places and self.quiet_for():
            return msgspec.structs.replace(self._last_claim, limit=limit, places=places, quiet=True)
        request = self.queue.claim_request(limit, None, self.queue.handlers.kinds, self.worker)
        if not self._hands_over:
            return request
        fields = msgspec.structs.asdict(request)
        self._last_claim = WaitingClaim(**fields, listener=self.listener, places=places)
        return self._last_claim

    def receive(self, records: Sequence[Record], asked_at: float) -> None:
        """Take in jobs that were asked for at the moment `asked_at`, and have them run."""
        if not records:
            return
        queue = self.queue
        try:
            batch = self._take_in(records)
        except Exception:
            # Their policies cannot be read now. The jobs must not stay leased without being run.
            known = queue.policies.last_known
            queue.apply(
                [lifecycle.release(job, known(job), "could not be taken in") for job in records]
            )
            raise
        for held in batch:
            held.kept_until = asked_at + held.lease
        self.held.update(batch)
        if not self.claiming:
            self.give_back(batch)
            return
        try:
            self._submit(batch)
        except BaseException:
            # Jobs that an executor has taken in are for it to begin, or to give back.
            self.give_back([held for held in batch if not held.since], "could not be begun")
            raise

    def _take_in(self, records: Sequence[Record]) -> list[Held]:
        queue, plain, batch = self.queue, dict[str, tuple[Handler, Resolved]](), []
        for record in records:
            # What holds for one job without options holds for all of its kind.
            terms = plain.get(record.kind) if record.options is NO_OPTIONS else None
            if terms is None:
                terms = queue.handlers[record.kind], queue.policies.of(record)
                if record.options is NO_OPTIONS:
                    plain[record.kind] = terms
            batch.append(Held(queue, record, *terms))
        return batch

    def give_back(self, batch: Sequence[Held], note: str = "the worker stopped") -> None:
        """Release jobs that have not ended; it costs them no attempt."""
        for held in batch:
            self.outbox.put(held, lifecycle.release(held.record, held.policy, note))

    def settled(self, batch: Sequence[Settled], verdicts: Sequence[Verdict]) -> None:
        """The store has answered: these jobs are no longer held."""
        if not batch:
            return
        self.held.difference_update([held for held, _ in batch])
        self._demand.note_ended(len(batch))
        for (held, transition), verdict in zip(batch, verdicts, strict=True):
            held.finish()
            if held.in_transaction:
                self._log_transaction(held, transition, verdict)
            elif not verdict.applied:
                logger.warning(
                    "job %r of %s: %s was refused, its lease was lost (it is %s now)",
                    held.id,
                    self.queue.key,
                    transition.act,
                    verdict.state or "gone",
                )

    def _log_transaction(self, held: Held, transition: Transition, verdict: Verdict) -> None:
        """Log what became of a job settled in a transaction, which may rightly refuse this step."""
        detail = note_of(transition) or transition.act
        if verdict.applied and held.in_transaction is transition.act:
            # Both steps are the same act, so it does not matter which one was applied.
            words = "it failed in its transaction, or that was rolled back (%s)"
        elif verdict.applied:
            words = "its transaction was rolled back (%s)"
        elif verdict.state is State.PROCESSING:
            words = "its transaction is still open, or its lease was lost (%s); its lease decides"
        elif transition.failure is not None and transition.failure.type != NotCommitted.__name__:
            words = "its handler failed after it was settled (%s)"
        else:
            return
        logger.warning(f"job %r of %s: {words}", held.id, self.queue.key, detail)

    def lose(self, held: Held) -> bool:
        """The lease is gone, and what the handler returns does not count any more.

        False if its outcome is on its way to the store, which will tell whether it counts.
        """
        if not held.lose():
            return False
        self.forget(held)
        return True

    def abandon(self, batch: Sequence[Settled]) -> None:
        """No outcome can be stored any more: let go of these jobs."""
        if not batch:
            return
        logger.error(
            "queue %s: its store is closed, and the outcomes of %d jobs could not be stored; "
            "when their leases expire, they are retried",
            self.queue.key,
            len(batch),
        )
        for held, _ in batch:
            self.forget(held)

    def forget(self, held: Held) -> None:
        """Let go of a job without an answer from the store."""
        self.held.discard(held)
        held.finish()
