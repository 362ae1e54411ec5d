"""Wakes a stream upon notifications of one queue, or of all queues of a tenant."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Self

from ackline.core.job import QueueKey
from ackline.service.http.sse import StreamSignal
from ackline.service.wakeups.wakeup import Wakeup
from ackline.stores.contract import Topic

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime


class StreamWakeup:
    """Wakes a stream when something happens in one queue, or in any queue of a tenant."""

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
        self._context: AbstractContextManager[Wakeup] = (
            runtime.wakeups.of_tenant(tenant, topic)
            if queue is None
            else runtime.wakeups.of_queue(QueueKey(tenant, queue), topic)
        )
        self._seen_version = 0
        self._sent_at = time.monotonic()

    @property
    def ping_due(self) -> bool:
        """Whether a ping is due, because nothing was sent for a while."""
        return self._until_ping <= 0

    @property
    def _until_ping(self) -> float:
        return self._sent_at + self._runtime.settings.ping_every - time.monotonic()

    def mark_sent(self) -> None:
        """Record that something was sent."""
        self._sent_at = time.monotonic()

    async def wait(self) -> None:
        """Wait until something may have happened, the stream should end, or a ping is due."""
        waiter = self._wakeup.wait(self._stream.wake, self._seen_version)
        try:
            await self._stream.wait(max(0.0, self._until_ping))
        finally:
            self._wakeup.cancel(waiter)
        self._seen_version = self._wakeup.version

    async def __aenter__(self) -> Self:
        self._wakeup = self._context.__enter__()
        self._seen_version = self._wakeup.version
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._context.__exit__(None, None, None)
