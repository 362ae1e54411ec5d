"""The leased jobs of one queue that a worker has in hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ackline.core import lifecycle
from ackline.core.config import ResolvedPolicy
from ackline.core.job import NO_OPTIONS, Record, State
from ackline.core.lifecycle import Transition, Verdict, journal_note
from ackline.queue import Handler, Queue
from ackline.worker.handler_outcome import NotCommitted
from ackline.worker.held import LeasedJob
from ackline.worker.outbox import SettleBuffer, Settled

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
