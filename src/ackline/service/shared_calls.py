"""Calls that many requests make at the same time: one of them serves all that wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedCalls:
    """Joins calls with the same key that have not begun yet.

    A call that has begun is never joined: it may have looked before the news that its caller is
    here for.
    """

    def __init__(self, call: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}

    async def call(self, key: Hashable, function: Callable[[], T]) -> T:
        """Run something that blocks, or wait for the call that does it."""

        def run() -> T:
            with self._lock:
                del self._waiting[key]
            return function()

        with self._lock:
            task = self._waiting.get(key)
            if task is None:
                task = self._waiting[key] = asyncio.ensure_future(self._run(key, run))
                task.add_done_callback(_forget)
        # One that leaves does not take the answer from the others.
        answer: T = await asyncio.shield(task)
        return answer

    async def _run(self, key: Hashable, run: Callable[[], T]) -> T:
        try:
            answer: T = await self._call(run)
        except BaseException:
            with self._lock:
                # It may never have begun: the next call must not wait for it.
                if self._waiting.get(key) is asyncio.current_task():
                    del self._waiting[key]
            raise
        return answer


def _forget(task: asyncio.Task[Any]) -> None:
    """An error is raised to those who wait; if they have all left, it concerns nobody."""
    if not task.cancelled():
        task.exception()
