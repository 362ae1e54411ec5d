"""The receipts of the demo's producer, kept apart from the store to be compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ackline import NewJob, Queued, Queues
from ackline.queue import Enqueued, EnqueueOptions

JobName = tuple[str, str]
"""Queue and id."""


class Ledger(msgspec.Struct):
    """Receipts of jobs, and kills of workers."""

    sent: set[JobName] = msgspec.field(default_factory=set)
    """Noted before the store is called: an interrupted call may have been stored or not."""
    accepted: set[JobName] = msgspec.field(default_factory=set)
    duplicates: int = 0
    kills: dict[str, float] = msgspec.field(default_factory=dict)
    """Worker id → when this demo sent it SIGKILL."""
    schedules: set[str] = msgspec.field(default_factory=set)
    """Names of the schedules that enqueue by themselves."""


class Producer:
    """Enqueues, and notes the answers."""

    def __init__(self, queues: Queues, ledger: Ledger) -> None:
        self._queues = queues
        self._ledger = ledger

    def enqueue(self, queue: str, payload: Any, **options: Any) -> None:
        """Enqueue one job."""
        self._ledger.sent.add((queue, options["id"]))
        self._note(queue, self._queues[queue].enqueue(payload, **options))

    def enqueue_many(self, queue: str, jobs: Sequence[NewJob[Any]], **options: Any) -> None:
        """Enqueue many jobs in one durable write."""
        self._ledger.sent |= {(queue, job.options["id"]) for job in jobs}
        enqueue_options: EnqueueOptions = options  # type: ignore[assignment]
        for answer in self._queues[queue].enqueue_many(jobs, **enqueue_options):
            self._note(queue, answer)

    def _note(self, queue: str, answer: Enqueued) -> None:
        if isinstance(answer, Queued):
            self._ledger.accepted.add((queue, answer.id))
        else:
            self._ledger.duplicates += 1
