"""A leased job from its claim until its outcome is stored, and the outcomes on their way."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ackline.core import lifecycle
from ackline.core.config import ResolvedPolicy
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import NO_OPTIONS, Record, State
from ackline.core.lifecycle import Transition, Verdict, journal_note
from ackline.queue import Handler, Job, Queue
from ackline.worker.handler_outcome import NotCommitted
from ackline.worker.timers import Timer

_decision_lock = threading.Lock()
"""Held while it is decided how a job ends. All jobs share it, because it is held briefly."""
renew_locks_after_fork(sys.modules[__name__], "_decision_lock")


class LeasedJob(Job[Any]):
    """One leased job, from its claim until it is settled or lost; its handler sees a `Job`."""

    __slots__ = (
        "buffered_at",
        "given_up",
        "handler",
        "handler_ended",
        "home_queue",
        "leased_until",
        "lost",
        "on_forgotten",
        "policy",
        "release_requested",
        "settling",
        "task",
        "task_started",
        "timed_out",
        "timeout_timer",
    )

    def __init__(
        self, queue: Queue[Any, Any], record: Record, handler: Handler, policy: ResolvedPolicy
    ) -> None:
        super().__init__(record, queue, handler.payload_type)
        self.home_queue = queue
        self.handler = handler
        self.policy = policy
        self.task: asyncio.Task[None] | None = None
        self.timeout_timer: Timer | None = None
        self.buffered_at = 0.0
        """When an executor took it in, by this process's monotonic clock; 0 before."""
        self.on_forgotten: Callable[[], None] | None = None
        """Called by `finish`, when the outcome is stored or the job is no longer this worker's."""
        self.leased_until = 0.0
        """Until then, by the same clock, the lease is ours, even if nothing reaches the store."""
        self.lost = False
        self.handler_ended = False
        self.release_requested = False
        self.settling = False
        self.task_started = False
        """Whether its task has begun to run: if cancelled before, it would never settle the job."""
        self.timed_out = False
        self.given_up = False
        """Its handler does not stop; its lane is no longer counted."""

    @property
    def stop_requested(self) -> bool:
        """Whether its signal is set; unlike `signal`, this makes none."""
        return self._signal is not None and self._signal.is_set()

    def claim_settling(self) -> bool:
        """Decide for this outcome; False if another came first, or the lease is lost."""
        with _decision_lock:
            if self.lost or self.settling:
                return False
            self.settling = True
            return True

    def mark_lost(self) -> bool:
        """Mark the lease as lost; False if it was, or if an outcome is on its way already."""
        with _decision_lock:
            if self.lost or self.settling:
                return False
            self.lost = True
            return True

    def forget(self) -> None:
        """Call `let_go` only once: by a second time, the slot it frees may be another job's."""
        if self.on_forgotten is None:
            return
        with _decision_lock:
            let_go, self.on_forgotten = self.on_forgotten, None
        if let_go is not None:
            let_go()

    def extend(self, seconds: float) -> None:
        asked_at = time.monotonic()
        super().extend(seconds)
        self.leased_until = max(self.leased_until, asked_at + seconds)

    @property
    def lease(self) -> float:
        """Seconds that each heartbeat asks for."""
        return self.policy.lease


Settled = tuple[LeasedJob, Transition]


class SettleBuffer:
    """Executors put outcomes in, the claim loop takes batches out."""

    def __init__(self, flush_at: int, flush_now: Callable[[], bool]) -> None:
        self._settled: deque[Settled] = deque()
        self._enough = flush_at
        self._urgent = flush_now
        self._wake: Callable[[], None] = lambda: None
        self._wake_requested = False
        """Whether the claim loop was called and has not looked yet: it will see later ones, too."""

    def on_ready(self, wake: Callable[[], None]) -> None:
        """Call this when a batch is worth a round trip."""
        self._wake = wake

    def put(self, held: LeasedJob, transition: Transition) -> None:
        """Hand in what became of a job; only the first outcome counts, and none of a lost lease."""
        if not held.claim_settling():
            return
        self._settled.append((held, transition))
        size = len(self._settled)
        # The first outcome, too: the claim loop lets it wait for others, but not for long.
        if not self._wake_requested and (size == 1 or size >= self._enough or self._urgent()):
            self._wake_requested = True
            self._wake()

    def rearm(self) -> None:
        """The claim loop is about to look: what comes in from now on is worth another call."""
        self._wake_requested = False

    def put_back(self, batch: list[Settled]) -> None:
        """Return a batch that could not be sent; it is safe to send again."""
        self._settled.extendleft(reversed(batch))

    def take(self, limit: int) -> list[Settled]:
        """The oldest outcomes, up to a limit."""
        batch: list[Settled] = []
        try:
            while len(batch) < limit:
                batch.append(self._settled.popleft())
        except IndexError:
            pass
        return batch

    def __len__(self) -> int:
        return len(self._settled)


logger = logging.getLogger("ackline")


class LeasedJobs:
    """The jobs from their claim until they are settled or lost, and the outcomes on their way."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        outbox: SettleBuffer,
        submit: Callable[[Sequence[LeasedJob]], None],
    ) -> None:
        self.queue = queue
        self.settle_buffer = outbox
        self.jobs: set[LeasedJob] = set()
        self._submit = submit

    def start(self, records: Sequence[Record], leased_at: float, *, accept: bool) -> None:
        """Take in jobs whose leases began at `leased_at`, and have them run, or give them back."""
        queue = self.queue
        try:
            batch = self._wrap_records(records)
        except Exception:
            # Their policies cannot be read now. The jobs must not stay leased without being run.
            known = queue.policies.last_known
            queue.apply(
                [lifecycle.release(job, known(job), "could not be taken in") for job in records]
            )
            raise
        for held in batch:
            held.leased_until = leased_at + held.lease
        self.jobs.update(batch)
        if not accept:
            self.release(batch)
            return
        try:
            self._submit(batch)
        except BaseException:
            # Jobs that an executor has taken in are for it to begin, or to give back.
            self.release([held for held in batch if not held.buffered_at], "could not be begun")
            raise

    def _wrap_records(self, records: Sequence[Record]) -> list[LeasedJob]:
        queue, by_kind, batch = self.queue, dict[str, tuple[Handler, ResolvedPolicy]](), []
        for record in records:
            # What holds for one job without options holds for all of its kind.
            handler_and_policy = by_kind.get(record.kind) if record.options is NO_OPTIONS else None
            if handler_and_policy is None:
                handler_and_policy = queue.handlers[record.kind], queue.policies.of(record)
                if record.options is NO_OPTIONS:
                    by_kind[record.kind] = handler_and_policy
            batch.append(LeasedJob(queue, record, *handler_and_policy))
        return batch

    def release(self, batch: Sequence[LeasedJob], note: str = "the worker stopped") -> None:
        """Release jobs that have not ended; it costs them no attempt."""
        for held in batch:
            self.settle_buffer.put(held, lifecycle.release(held.record, held.policy, note))

    def record_verdicts(self, batch: Sequence[Settled], verdicts: Sequence[Verdict]) -> None:
        """The store has answered: these jobs are no longer held."""
        self.jobs.difference_update([held for held, _ in batch])
        for (held, transition), verdict in zip(batch, verdicts, strict=True):
            held.forget()
            if held.settled_in_transaction:
                self._log_transaction(held, transition, verdict)
            elif not verdict.applied:
                logger.warning(
                    "job %r of %s: %s was refused, its lease was lost (it is %s now)",
                    held.id,
                    self.queue.key,
                    transition.act,
                    verdict.state or "gone",
                )

    def _log_transaction(self, held: LeasedJob, transition: Transition, verdict: Verdict) -> None:
        """Log what became of a job settled in a transaction, which may rightly refuse this step."""
        detail = journal_note(transition) or transition.act
        if verdict.applied and held.settled_in_transaction is transition.act:
            # Both steps are the same act, so it does not matter which one was applied.
            explanation = "it failed in its transaction, or that was rolled back (%s)"
        elif verdict.applied:
            explanation = "its transaction was rolled back (%s)"
        elif verdict.state is State.PROCESSING:
            explanation = (
                "its transaction is still open, or its lease was lost (%s); its lease decides"
            )
        elif transition.failure is not None and transition.failure.type != NotCommitted.__name__:
            explanation = "its handler failed after it was settled (%s)"
        else:
            return
        logger.warning(f"job %r of %s: {explanation}", held.id, self.queue.key, detail)

    def mark_lost(self, held: LeasedJob) -> bool:
        """The lease is gone, and what the handler returns does not count any more.

        False if its outcome is on its way to the store, which will tell whether it counts.
        """
        if not held.mark_lost():
            return False
        self.forget(held)
        return True

    def drop_unstorable(self, batch: Sequence[Settled]) -> None:
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

    def forget(self, held: LeasedJob) -> None:
        """Let go of a job without an answer from the store."""
        self.jobs.discard(held)
        held.forget()
