"""The threads in which blocking calls run for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

T = TypeVar("T")


Q = ParamSpec("Q")


class ThreadPools:
    """Thread pools for blocking calls, shared by all queues of a store."""

    def __init__(
        self, calls: int = 8, waits: int = 256, enqueues: int = 8, settles: int = 8
    ) -> None:
        self._calls = ThreadPoolExecutor(calls, "ackline call")
        # Separate, because an enqueue may have to wait for another open transaction.
        self.enqueues = ThreadPoolExecutor(enqueues, "ackline enqueue")
        self.settles = ThreadPoolExecutor(settles, "ackline settle")
        # Separate, so that waiting callers never occupy the threads of short calls.
        self._waits = ThreadPoolExecutor(waits, "ackline wait")

    def call(
        self, function: Callable[Q, T], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> asyncio.Future[T]:
        """Run a short call."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._calls, lambda: function(*args, **kwargs))

    def wait(self, function: Callable[[float], T], seconds: float) -> asyncio.Future[T]:
        """Run a call that mostly waits."""
        return asyncio.get_running_loop().run_in_executor(self._waits, function, seconds)

    def run_soon(self, function: Callable[[], object]) -> None:
        """Run a call in the background; it must not raise."""
        try:
            self._calls.submit(function)
        except RuntimeError:  # closed already
            function()

    def close(self) -> None:
        """End the threads after their current calls."""
        self._calls.shutdown(wait=False)
        self.enqueues.shutdown(wait=False)
        self.settles.shutdown(wait=False)
        self._waits.shutdown(wait=False)
