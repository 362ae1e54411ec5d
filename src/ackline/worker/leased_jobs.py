"""The leased jobs of one queue that a worker has in hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ackline import lifecycle
from ackline.config import Resolved
from ackline.job import NO_OPTIONS, Record, State
from ackline.lifecycle import Transition, Verdict, note_of
from ackline.queue import Handler, Queue
from ackline.worker.held import Held
from ackline.worker.outbox import Outbox, Settled
from ackline.worker.running import NotCommitted

logger = logging.getLogger("ackline")


class LeasedJobs:
    """The jobs from their claim until they are settled or lost, and the outcomes on their way."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        outbox: Outbox,
        submit: Callable[[Sequence[Held]], None],
    ) -> None:
        self.queue = queue
        self.outbox = outbox
        self.held: set[Held] = set()
        self._submit = submit

    def begin(self, records: Sequence[Record], leased_at: float, *, accept: bool) -> None:
        """Take in jobs whose leases began at `leased_at`, and have them run, or give them back."""
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
            held.kept_until = leased_at + held.lease
        self.held.update(batch)
        if not accept:
            self.give_back(batch)
            return
        try:
            self._submit(batch)
        except BaseException:
            # Jobs that an executor has taken in are for it to begin, or to give back.
            self.give_back([held for held in batch if not held.buffered_at], "could not be begun")
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
        self.held.difference_update([held for held, _ in batch])
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
