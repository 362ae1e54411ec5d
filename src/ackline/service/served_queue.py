"""A queue as requests use it: what is settled through it is counted."""

from __future__ import annotations

from typing import Any

from ackline.aio import AsyncQueue
from ackline.aio.base import Maker, Threads
from ackline.codec import Json
from ackline.job import Draft
from ackline.lifecycle import Transition, Verdict
from ackline.queue import Enqueued, Queue
from ackline.service.metrics.work import Work


class JsonUnread(Json):
    """Writes results as JSON, but does not decode them: other serdes wrote some."""

    def loads(self, data: bytes, type: Any = Any) -> Any:  # noqa: ARG002
        return data


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
