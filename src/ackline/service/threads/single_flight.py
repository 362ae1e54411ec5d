"""Calls that many requests make at the same time: one of them serves all that wait for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
Runner = Callable[[Callable[[], Any]], Awaitable[Any]]


class SingleFlight:
    """Joins calls with the same key that have not begun yet.

    A call that has begun is never joined: it may have looked before the news that its caller is
    here for. With `every`, calls with the same key begin at least that many seconds apart.
    """

    def __init__(self, every: float = 0.0) -> None:
        self._every = every
        self._started_at: dict[Hashable, float] = {}
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}

    async def call(self, key: Hashable, function: Callable[[], T], run_in: Runner) -> T:
        """Run something that blocks by `run_in`, or wait for the call that does it."""

        def run() -> T:
            with self._lock:
                del self._waiting[key]
                self._record_start(key)
            return function()

        with self._lock:
            task = self._waiting.get(key)
            if task is None:
                task = self._waiting[key] = asyncio.ensure_future(self._run(key, run, run_in))
                task.add_done_callback(_retrieve_exception)
        # One that leaves does not take the answer from the others.
        answer: T = await asyncio.shield(task)
        return answer

    def _record_start(self, key: Hashable) -> None:
        if self._every:
            now = time.monotonic()
            self._started_at = {
                k: at for k, at in self._started_at.items() if now - at < self._every
            }
            self._started_at[key] = now

    async def _run(self, key: Hashable, run: Callable[[], T], run_in: Runner) -> T:
        try:
            if begun := self._started_at.get(key):
                await asyncio.sleep(begun + self._every - time.monotonic())
            answer: T = await run_in(run)
        except BaseException:
            with self._lock:
                # It may never have begun: the next call must not wait for it.
                if self._waiting.get(key) is asyncio.current_task():
                    del self._waiting[key]
            raise
        return answer


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """An error is raised to those who wait; if they have all left, it concerns nobody."""
    if not task.cancelled():
        task.exception()
