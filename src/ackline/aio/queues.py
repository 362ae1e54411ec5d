"""Opens a store and its queues, for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Generator
from typing import Any, Self, Unpack, overload

from ackline import queues
from ackline.aio.consumer import AsyncConsumer
from ackline.aio.operator import AsyncOperator
from ackline.aio.producer import AsyncProducer
from ackline.aio.thread_pools import ThreadPools
from ackline.core import codec
from ackline.core.clock import Clock
from ackline.core.codec import Serde, SerdeLike
from ackline.core.config import suggests_options
from ackline.queue import Queue
from ackline.queue.base import P, R
from ackline.queues import QueueOptions, Queues
from ackline.stores.contract import KeyValue, QueueInfo, StoreInfo
from ackline.stores.registry import StoreSource


class AsyncQueue(AsyncProducer[P, R], AsyncConsumer[P, R], AsyncOperator[P, R]):
    """One queue of one tenant, for asyncio.

    >>> async with open("memory://") as queues:  # doctest: +SKIP
    ...     await queues["email"].enqueue({"to": "a@example.com"}, id="email-123")
    """


class AsyncQueues:
    """The queues of one tenant in one open store, for asyncio. `sync` are the same queues."""

    def __init__(self, sync: Queues) -> None:
        self.sync = sync
        self._threads = ThreadPools()
        self._queues: dict[str, AsyncQueue[Any, Any]] = {}
        self._all_queues: weakref.WeakSet[AsyncQueue[Any, Any]] = weakref.WeakSet()
        """All queues created, including those that one of the same name has replaced."""

    def __getitem__(self, name: str) -> AsyncQueue[Any, Any]:
        """The queue of this name; it is created when it is first used."""
        if name not in self._queues:
            return self._add(self.sync[name])
        return self._queues[name]

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: type[P],
        result: type[R],
        **options: Unpack[QueueOptions],
    ) -> AsyncQueue[P, R]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: type[P],
        result: Any = Any,
        **options: Unpack[QueueOptions],
    ) -> AsyncQueue[P, Any]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: Any = Any,
        result: type[R],
        **options: Unpack[QueueOptions],
    ) -> AsyncQueue[Any, R]: ...

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: Any = Any,
        result: Any = Any,
        **options: Unpack[QueueOptions],
    ) -> AsyncQueue[Any, Any]: ...

    @suggests_options
    def queue(
        self,
        name: str,
        *,
        payload: Any = Any,
        result: Any = Any,
        serde: Serde | SerdeLike | str | None = None,
        result_serde: Serde | SerdeLike | str | None = None,
        max_payload: int = codec.DEFAULT_MAX_PAYLOAD,
    ) -> AsyncQueue[Any, Any]:
        """A queue with declared types, another serde or another limit.

        The options are `serde`, `result_serde` and `max_payload`.
        """
        queue = self.sync.queue(
            name,
            payload=payload,
            result=result,
            serde=serde,
            result_serde=result_serde,
            max_payload=max_payload,
        )
        return self._add(queue)

    def _add(self, sync: Queue[Any, Any]) -> AsyncQueue[Any, Any]:
        queue: AsyncQueue[Any, Any] = AsyncQueue(sync, self._threads)
        self._queues[sync.name] = queue
        self._all_queues.add(queue)
        return queue

    async def names(self) -> list[str]:
        """The names of all queues that the store knows."""
        return await self._threads.call(self.sync.names)

    async def describe(self) -> list[QueueInfo]:
        """All queues with their settings and counts."""
        return await self._threads.call(self.sync.describe)

    async def read_keys(self, *prefix: str, limit: int = 1000) -> list[KeyValue]:
        """The entries whose keys start with this prefix."""
        return await self._threads.call(self.sync.read_keys, *prefix, limit=limit)

    async def delete_key(self, *key: str) -> bool:
        """Remove one key; False if there was none."""
        return await self._threads.call(self.sync.delete_key, *key)

    async def info(self) -> StoreInfo:
        """What the store is, where it is, and when it considers a job durable."""
        return await self._threads.call(self.sync.info)

    async def close(self) -> None:
        """Close the queues and the store."""
        for queue in list(self._all_queues):
            await queue.close()
        await asyncio.to_thread(self.sync.close)
        self._threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class PendingOpen:
    """A store about to be opened: await it, or use it in an `async with` block."""

    def __init__(
        self,
        url: StoreSource,
        tenant: str | None,
        clock: Clock | None,
        token: str | None,
    ) -> None:
        self._url = url
        self._tenant = tenant
        self._clock = clock
        self._token = token
        self._opened: AsyncQueues | None = None

    async def _open(self) -> AsyncQueues:
        if self._opened is None:
            sync = await asyncio.to_thread(
                queues.open,
                self._url,
                tenant=self._tenant,
                clock=self._clock,
                token=self._token,
            )
            self._opened = AsyncQueues(sync)
        return self._opened

    def __await__(self) -> Generator[Any, Any, AsyncQueues]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncQueues:
        return await self._open()

    async def __aexit__(self, *_error: object) -> None:
        if self._opened is not None:
            await self._opened.close()


@suggests_options
def open(
    url: StoreSource,
    *,
    tenant: str | None = None,
    clock: Clock | None = None,
    token: str | None = None,
) -> PendingOpen:
    """Open a store as `ackline.open` does: `await` it, or use it in an `async with` block.

    >>> async with open("sqlite:///jobs.db") as queues:  # doctest: +SKIP
    ...     await queues["email"].enqueue({"to": "a@example.com"})
    """
    return PendingOpen(url, tenant, clock, token)
