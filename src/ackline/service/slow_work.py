"""Searches and acts on many jobs, apart from the short calls that everybody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from ackline.service.limits.refusals import TooMany

T = TypeVar("T")
P = ParamSpec("P")

THREADS = 4
AT_ONCE = 2
"""Calls of one tenant at once: half of the threads, so that its searches do not block others."""

MOST_WAITING = 32
"""Calls of one tenant that may wait; more are refused."""


class TooManyLooks(TooMany):
    """More long requests than a tenant may have waiting."""

    type = "too-many-looks"


class SlowWork:
    """A few threads, shared fairly by the tenants."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "ackline slow")
        self._turns: dict[str, _Turns] = {}

    async def call(
        self, tenant: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run something that may take long."""
        turns = self._turns.setdefault(tenant, _Turns())
        if turns.users >= AT_ONCE + MOST_WAITING:
            raise TooManyLooks("your tenant has too many long requests in progress", "looks")
        turns.users += 1
        try:
            async with turns.free:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
        finally:
            turns.users -= 1
            if not turns.users:
                del self._turns[tenant]

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)


class _Turns:
    def __init__(self) -> None:
        self.free = asyncio.Semaphore(AT_ONCE)
        self.users = 0
