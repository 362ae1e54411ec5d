"""Waiting for news of a tenant's queues, including those that are created later."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

from ackline.job import QueueKey
from ackline.service.bells import Bell
from ackline.service.streams import StreamEnd
from ackline.stores.base import Topic

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

LONGEST_WAIT = 1.0
"""News can be lost, and new queues come: look again after this many seconds."""


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
        self._tenant = tenant
        self._topic: Topic = topic
        self._queue = queue
        self._keys: tuple[QueueKey, ...] = ()
        self._bells = AsyncExitStack()
        self._spoke_at = time.monotonic()

    @property
    def silent(self) -> bool:
        """Whether nothing was sent for so long that a ping is due."""
        return time.monotonic() - self._spoke_at >= self._runtime.settings.ping_every

    def spoke(self) -> None:
        """Something was sent."""
        self._spoke_at = time.monotonic()

    async def wait(self) -> None:
        """Wait until there may be news, the stream should end, or a second has passed."""
        if not await self._stream.pause(LONGEST_WAIT) and self._queue is None:
            await self._subscribe()

    async def __aenter__(self) -> Self:
        await self._subscribe()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._bells.aclose()

    async def _subscribe(self) -> None:
        keys = await self._queues()
        if keys == self._keys:
            return
        await self._bells.aclose()
        self._bells, self._keys = AsyncExitStack(), keys
        bell = await self._bells.enter_async_context(self._runtime.bells.bell(keys, self._topic))
        self._bells.callback(_leave, bell, self._stream)
        bell.join(self._stream.wake)

    async def _queues(self) -> tuple[QueueKey, ...]:
        if self._queue is not None:
            return (QueueKey(self._tenant, self._queue),)
        found = await self._runtime.call(self._runtime.store.describe, self._tenant)
        return tuple(info.key for info in found)


def _leave(bell: Bell, stream: StreamEnd) -> None:
    bell.leave(stream.wake)
