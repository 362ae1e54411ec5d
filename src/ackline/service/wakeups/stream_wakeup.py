"""Waiting for news of a tenant's queues, including those that are created later."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from ackline.core.job import QueueKey
from ackline.service.http.sse import StreamSignal
from ackline.service.wakeups.wakeups import Wakeup
from ackline.stores.contract import Topic

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


class StreamWakeup:
    """Wakes a stream whenever something happens in one queue, or in any of a tenant."""

    def __init__(
        self,
        runtime: Runtime,
        stream: StreamSignal,
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
    def ping_due(self) -> bool:
        """Whether nothing was sent for so long that a ping is due."""
        return self._until_ping <= 0

    @property
    def _until_ping(self) -> float:
        return self._spoke_at + self._runtime.settings.ping_every - time.monotonic()

    def mark_sent(self) -> None:
        """Something was sent."""
        self._spoke_at = time.monotonic()

    async def wait(self) -> None:
        """Wait until there may be news, the stream should end, or a ping is due."""
        waiter = self._wakeup.wait(self._stream.wake, self._seen)
        try:
            await self._stream.wait(max(0.0, self._until_ping))
        finally:
            self._wakeup.cancel(waiter)
        self._seen = self._wakeup.version

    async def __aenter__(self) -> Self:
        self._wakeup = self._using.__enter__()
        self._seen = self._wakeup.version
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._using.__exit__(None, None, None)
