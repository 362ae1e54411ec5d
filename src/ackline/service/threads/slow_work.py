"""Threads for slow work, such as searches and bulk operations, apart from short calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Generic, ParamSpec, TypeVar

from ackline.service.limits.errors import TooMany

T = TypeVar("T")
P = ParamSpec("P")

Chunks = Generator[Any, None, T]
"""Work in short chunks; the values that are yielded in between are not used."""

THREAD_COUNT = 8
CALLS_PER_TENANT = 2
"""Concurrent calls per tenant: while some tenants' calls hang, others have threads left."""

MAX_WAITING_PER_TENANT = 32
"""Maximum number of waiting calls per tenant; more are refused."""

CHUNK_SECONDS = 0.1
"""Seconds after which work in chunks leaves its thread to the next call."""


class TooManySlowRequests(TooMany):
    """More slow requests than a tenant may have waiting."""

    type = "too-many-slow-requests"


class SlowWorkPool:
    """A few threads, shared fairly by the tenants.

    A tenant has only a few calls in the queue for the threads, and work in chunks returns to its
    end after each slice; so other tenants are next, however much one of them has to do.
    """

    def __init__(self, threads: int = THREAD_COUNT) -> None:
        self._threads = ThreadPoolExecutor(threads, "ackline slow")
        self._slots: dict[str, _TenantSlots] = {}

    async def call(
        self, tenant: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run something that may take long and cannot be done in chunks."""
        async with self._slots_of(tenant) as slots, slots.free:
            return await self._run_uncancelled(lambda: function(*args, **kwargs))

    async def run_chunks(self, tenant: str, chunks: Chunks[T]) -> T:
        """Run all chunks; a cancellation ends them after the chunk in progress."""
        async with self._slots_of(tenant) as slots:
            try:
                while True:
                    async with slots.free:
                        end = await self._run_uncancelled(lambda: _run_chunk(chunks))
                    if end is not None:
                        return end.value
            except asyncio.CancelledError:
                await self._in_thread(chunks.close)
                raise

    async def _run_uncancelled(self, function: Callable[[], T]) -> T:
        """Run something in a thread, and wait for its end even if this is cancelled."""
        running = self._in_thread(function)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    @asynccontextmanager
    async def _slots_of(self, tenant: str) -> AsyncIterator[_TenantSlots]:
        slots = self._slots.setdefault(tenant, _TenantSlots())
        if slots.calls >= CALLS_PER_TENANT + MAX_WAITING_PER_TENANT:
            raise TooManySlowRequests(
                "your tenant has too many slow requests in progress", "slow-requests"
            )
        slots.calls += 1
        try:
            yield slots
        finally:
            slots.calls -= 1
            if not slots.calls:
                del self._slots[tenant]

    def _in_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)


class _TenantSlots:
    def __init__(self) -> None:
        self.free = asyncio.Semaphore(CALLS_PER_TENANT)
        self.calls = 0


class _Finished(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


def _run_chunk(chunks: Chunks[T]) -> _Finished[T] | None:
    """Run chunks until the time is up; returns the result, if they are finished."""
    until = time.monotonic() + CHUNK_SECONDS
    while time.monotonic() < until:
        try:
            next(chunks)
        except StopIteration as end:
            return _Finished(end.value)
    return None
