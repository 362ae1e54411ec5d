"""Waiting for news of a tenant's queues, including those that are created later."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from ackline.job import QueueKey
from ackline.service.streams import StreamEnd
from ackline.service.wakeups import Wakeup
from ackline.stores.base import Topic

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


class News:
    """Wakes a stream whenever something happens in one queue, or in any of a tenant."""

    def __init__(
        self,
        runtime: Runtime,
        stream: StreamEnd,
        tenant: str,
        topic: Topic,
        queue: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._stream = stream
        self._using: AbstractContextManager[Wakeup] = (
            runtime.wakeups.of_tenant(tenant, topic)
            if queue is None
            else runtime.wakeups.of_queue(QueueKey(tenant, queue), topic)
        )
        self._seen = 0
        self._spoke_at = time.monotonic()

    @property
    def silent(self) -> bool:
        """Whether nothing was sent for so long that a ping is due."""
        return self._until_ping <= 0

    @property
    def _until_ping(self) -> float:
        return self._spoke_at + self._runtime.settings.ping_every - time.monotonic()

    def spoke(self) -> None:
        """Something was sent."""
        self._spoke_at = time.monotonic()

    async def wait(self) -> None:
        """Wait until there may be news, the stream should end, or a ping is due."""
        waiter = self._wakeup.join(self._stream.wake, self._seen)
        try:
            await self._stream.pause(max(0.0, self._until_ping))
        finally:
            self._wakeup.leave(waiter)
        self._seen = self._wakeup.version

    async def __aenter__(self) -> Self:
        self._wakeup = self._using.__enter__()
        self._seen = self._wakeup.version
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._using.__exit__(None, None, None)
