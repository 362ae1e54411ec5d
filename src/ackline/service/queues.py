"""Queues as requests use them: within the tenant's limits, with metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.aio import AsyncQueue
from ackline.aio.base import MakeTransition
from ackline.aio.thread_pools import ThreadPools
from ackline.core.codec import Json
from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import Transition, Verdict
from ackline.queue import Enqueued, Queue
from ackline.queue.serdes import Serdes
from ackline.service.limits.limiter import Limiter
from ackline.service.metrics.job_timings import JobTimings
from ackline.stores.contract import Store


class UndecodedJson(Json):
    """Encodes results as JSON, but does not decode them: another serde may have written them."""

    def loads(self, data: bytes, type: Any = Any) -> Any:  # noqa: ARG002
        return data


class LimitedQueue(Queue[Any, Any]):
    """A queue that refuses transitions beyond the limits of its tenant."""

    def __init__(self, store: Store, key: QueueKey, max_payload: int, limits: Limiter) -> None:
        super().__init__(store, key, Serdes(Json(), UndecodedJson(), max_payload=max_payload))
        self._limits = limits

    def apply(
        self, transitions: Sequence[Transition], connection: object | None = None
    ) -> list[Verdict]:
        """Apply transitions, all or none."""
        self._limits.require_capacity(self.key, transitions)
        return super().apply(transitions, connection)


class MeteredQueue(AsyncQueue[Any, Any]):
    """A queue that records settled jobs in the metrics."""

    def __init__(
        self, queue: Queue[Any, Any], threads: ThreadPools, job_timings: JobTimings
    ) -> None:
        super().__init__(queue, threads)
        self._job_timings = job_timings

    async def put(self, drafts: list[Draft]) -> list[Enqueued]:
        """Store drafts in one step; a single draft is grouped with those of other requests."""
        if len(drafts) == 1:
            receipts = [await self._enqueues.submit(drafts[0])]
        else:
            receipts = await self._call(self.sync.store_drafts, drafts)
        return [self.sync.from_receipt(receipt) for receipt in receipts]

    def _apply(self, makers: list[MakeTransition]) -> list[tuple[Transition, Verdict]]:
        applied = super()._apply(makers)
        self._job_timings.settled(self.sync.key, *zip(*applied, strict=True))
        return applied
