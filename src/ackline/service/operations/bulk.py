"""One act on all jobs that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec

from ackline.core import lifecycle
from ackline.core.job import QueueKey, Record, State
from ackline.core.lifecycle import Transition
from ackline.service.operations.bulk_step import BulkCursor, BulkProgress, BulkStep
from ackline.service.threads.slow_work import Chunks

Action = Literal["cancel", "redrive", "move", "delete"]


class BulkOperation(msgspec.Struct, frozen=True):
    """What is done to all jobs that match, and who does it."""

    action: Action
    by: str
    target: QueueKey | None = None
    """Where jobs are moved."""
    rate: float | None = None
    """How many redriven jobs become due per second, at most: it spares what they call."""

    def apply_to(self, step: BulkStep) -> Chunks[BulkProgress]:
        """Act on all jobs that match and were there when the first request began."""
        if self.action == "delete":
            return step.for_each_page(lambda jobs, _: step.purge(jobs, self.by))

        def apply(jobs: Sequence[Record], cursor: BulkCursor) -> int:
            transitions = [
                self._transition(step, job, index) for index, job in enumerate(jobs, cursor.done)
            ]
            return sum(verdict.applied for verdict in step.queue.apply(transitions))

        return step.for_each_page(apply)

    def _transition(self, step: BulkStep, job: Record, index: int) -> Transition:
        match self.action:
            case "cancel" if job.state is State.PROCESSING:
                return lifecycle.request_cancel(job.id, self.by)
            case "cancel":
                return lifecycle.cancel(job.id, step.queue.policies.of(job), self.by)
            case "redrive":
                delay = index / self.rate if self.rate else 0.0
                return lifecycle.redrive(job.id, delay, by=self.by)
            case "move":
                assert self.target is not None, "a move without a queue is refused before"
                return lifecycle.move(job.id, self.target, self.by)
            case "delete":
                raise AssertionError("a purge is no transition")
            case _:
                assert_never(self.action)


def count(step: BulkStep) -> Chunks[BulkProgress]:
    """How many jobs match."""
    return step.for_each_page(lambda jobs, _: len(jobs))
