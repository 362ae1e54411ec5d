"""What a worker holds of one queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ackline import lifecycle
from ackline.job import Record
from ackline.lifecycle import Verdict
from ackline.queue import Queue
from ackline.stores.base import ClaimRequest
from ackline.worker.demand import Demand
from ackline.worker.held import Held
from ackline.worker.outbox import Outbox, Settled

logger = logging.getLogger("ackline")


class Holdings:
    """The leased jobs of one queue: how many are wanted, and whom they go to."""

    def __init__(
        self,
        queue: Queue[Any, Any],
        worker: str,
        concurrency: int,
        submit: Callable[[Sequence[Held]], None],
        unstarted: Callable[[], int],
    ) -> None:
        self.queue = queue
        self.worker = worker
        self.batch = queue.store.capabilities.batch
        self.held: set[Held] = set()
        self.outbox = Outbox(self.batch // 2, lambda: not unstarted())
        self.unstarted = unstarted
        self.claiming = True
        self.news = True
        """Whether jobs may have become ready since the last claim began."""
        self.listening = threading.Lock()
        """Held by the courier that waits for news of jobs."""
        self._submit = submit
        self._demand = Demand(concurrency, self.batch)
        self._reserved = 0
        self._lock = threading.Lock()

    def want(self, settling: int) -> int:
        """How many jobs a claim should ask for that also settles so many."""
        if not self.claiming:
            return 0
        in_hand = len(self.held) + self._reserved - settling
        return max(0, min(self.batch, self._demand.target - in_hand))

    def reserve(self, settling: int) -> int:
        """Decide how many to claim, and let the other couriers know."""
        with self._lock:
            want = self.want(settling)
            self._reserved += want
            return want

    def unreserve(self, want: int) -> None:
        """The claim is over."""
        with self._lock:
            self._reserved -= want

    def request(self, limit: int) -> ClaimRequest:
        """A claim for the kinds that this process has handlers for."""
        return self.queue.claim_request(limit, None, self.queue.handlers.kinds, self.worker)

    def receive(self, records: Sequence[Record]) -> None:
        """Take claimed jobs in, and have them run."""
        if not records:
            return
        queue = self.queue
        try:
            batch = [
                Held(queue, record, queue.handlers[record.kind], queue.policy(record))
                for record in records
            ]
        except Exception:
            # Their policies cannot be read just now. Nobody must be left holding them.
            queue.apply([lifecycle.release(record, "could not be taken in") for record in records])
            raise
        self.held.update(batch)
        if self.claiming:
            self._submit(batch)
        else:
            self.give_back(batch)

    def give_back(self, batch: Sequence[Held], note: str = "the worker stopped") -> None:
        """Release jobs that have not ended; it costs them no attempt."""
        for held in batch:
            if not held.lost and not held.settling:
                self.outbox.put(held, lifecycle.release(held.record, note))

    def settled(self, batch: Sequence[Settled], verdicts: Sequence[Verdict]) -> None:
        """The store has answered: let go of these jobs."""
        if not batch:
            return
        self.held.difference_update([held for held, _ in batch])
        self._demand.note_ended(len(batch))
        for (held, transition), verdict in zip(batch, verdicts, strict=True):
            if not verdict.applied:
                logger.warning(
                    "job %r of %s: %s was refused, its lease was lost (it is %s now)",
                    held.id,
                    self.queue.key,
                    transition.act,
                    verdict.state or "gone",
                )

    def lose(self, held: Held) -> None:
        """The lease is gone: whatever the handler returns does not count any more."""
        held.lost = True
        self.held.discard(held)
