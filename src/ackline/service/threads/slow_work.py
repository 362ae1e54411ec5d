"""Searches and acts on many jobs, apart from the short calls that everybody waits for."""

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
"""Work in steps, each of which takes a moment only; what is yielded between them is not used."""

THREAD_COUNT = 8
CALLS_PER_TENANT = 2
"""Calls of one tenant at once: while some tenants' calls hang, the others have threads left."""

MAX_WAITING_PER_TENANT = 32
"""Calls of one tenant that may wait; more are refused."""

CHUNK_SECONDS = 0.1
"""Seconds of steps before a thread is free for the next in line."""


class TooManySlowRequests(TooMany):
    """More long requests than a tenant may have waiting."""

    type = "too-many-slow-requests"


class SlowWorkPool:
    """A few threads, shared fairly by the tenants.

    A tenant has no more than a few calls in the line for the threads, and work in steps goes to
    the end of the line after each slice: so however much one tenant has to do, the others are next.
    """

    def __init__(self, threads: int = THREAD_COUNT) -> None:
        self._threads = ThreadPoolExecutor(threads, "ackline slow")
        self._turns: dict[str, _TenantSlots] = {}

    async def call(
        self, tenant: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run something that may take long, but cannot be done in steps."""
        async with self._slots_of(tenant) as turns, turns.free:
            return await self._run_uncancelled(lambda: function(*args, **kwargs))

    async def run_chunks(self, tenant: str, steps: Chunks[T]) -> T:
        """Take all steps; whoever cancels this ends them after the one that is under way."""
        async with self._slots_of(tenant) as turns:
            try:
                while True:
                    async with turns.free:
                        end = await self._run_uncancelled(lambda: _run_chunk(steps))
                    if end is not None:
                        return end.value
            except asyncio.CancelledError:
                await self._in_thread(steps.close)
                raise

    async def _run_uncancelled(self, function: Callable[[], T]) -> T:
        """Run something in a thread; a turn is over when that is, even if this is cancelled."""
        under_way = self._in_thread(function)
        try:
            return await asyncio.shield(under_way)
        except asyncio.CancelledError:
            await asyncio.wait([under_way])
            raise

    @asynccontextmanager
    async def _slots_of(self, tenant: str) -> AsyncIterator[_TenantSlots]:
        turns = self._turns.setdefault(tenant, _TenantSlots())
        if turns.calls >= CALLS_PER_TENANT + MAX_WAITING_PER_TENANT:
            raise TooManySlowRequests("your tenant has too many long requests in progress", "looks")
        turns.calls += 1
        try:
            yield turns
        finally:
            turns.calls -= 1
            if not turns.calls:
                del self._turns[tenant]

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


def _run_chunk(steps: Chunks[T]) -> _Finished[T] | None:
    """Take steps until the slice is over; returns what they end with, if they do."""
    until = time.monotonic() + CHUNK_SECONDS
    while time.monotonic() < until:
        try:
            next(steps)
        except StopIteration as end:
            return _Finished(end.value)
    return None
