"""A queue as requests use it: within the tenant's limits, and what is settled is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.aio import AsyncQueue
from ackline.aio.base import Maker, Threads
from ackline.codec import Json
from ackline.job import Draft, QueueKey
from ackline.lifecycle import Transition, Verdict
from ackline.queue import Enqueued, Queue
from ackline.queue.serdes import Serdes
from ackline.service.limits import Limits
from ackline.service.metrics.work import Work
from ackline.stores.base import Store


class JsonUnread(Json):
    """Writes results as JSON, but does not decode them: other serdes wrote some."""

    def loads(self, data: bytes, type: Any = Any) -> Any:  # noqa: ARG002
        return data


class LimitedQueue(Queue[Any, Any]):
    """A queue that refuses acts for which its tenant has no room."""

    def __init__(self, store: Store, key: QueueKey, max_payload: int, limits: Limits) -> None:
        super().__init__(store, key, Serdes(Json(), JsonUnread(), max_payload=max_payload))
        self._limits = limits

    def apply(
        self, transitions: Sequence[Transition], connection: object | None = None
    ) -> list[Verdict]:
        """Hand transitions to the store, all or none."""
        self._limits.require_room(self.key, transitions)
        return super().apply(transitions, connection)


class ServedQueue(AsyncQueue[Any, Any]):
    """A queue that reports what was settled to the metrics."""

    def __init__(self, queue: Queue[Any, Any], threads: Threads, work: Work) -> None:
        super().__init__(queue, threads)
        self._work = work

    async def put(self, drafts: list[Draft]) -> list[Enqueued]:
        """Store drafts as they are, in one step; a single draft shares it with other requests."""
        if len(drafts) == 1:
            receipts = [await self._enqueues.submit(drafts[0])]
        else:
            receipts = await self._call(self.sync.put, drafts)
        return [self.sync.answer(receipt) for receipt in receipts]

    def _apply(self, makers: list[Maker]) -> list[tuple[Transition, Verdict]]:
        answered = super()._apply(makers)
        self._work.settled(self.sync.key, *zip(*answered, strict=True))
        return answered
