"""Calls that many requests make at the same time: one execution serves all that wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
Runner = Callable[[Callable[[], Any]], Awaitable[Any]]


class SingleFlight:
    """Joins calls with the same key that have not started yet.

    A call that has started is never joined: it may have read before the change that the caller was
    notified of. With `every`, calls with the same key start at least that many seconds apart.
    """

    def __init__(self, every: float = 0.0) -> None:
        self._every = every
        self._started_at: dict[Hashable, float] = {}
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}

    async def call(self, key: Hashable, function: Callable[[], T], run_in: Runner) -> T:
        """Run a blocking function with `run_in`, or wait for a call that is about to."""

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
        # A caller that is cancelled does not take the result from the others.
        result: T = await asyncio.shield(task)
        return result

    def _record_start(self, key: Hashable) -> None:
        if self._every:
            now = time.monotonic()
            self._started_at = {
                k: at for k, at in self._started_at.items() if now - at < self._every
            }
            self._started_at[key] = now

    async def _run(self, key: Hashable, run: Callable[[], T], run_in: Runner) -> T:
        try:
            if started_at := self._started_at.get(key):
                await asyncio.sleep(started_at + self._every - time.monotonic())
            result: T = await run_in(run)
        except BaseException:
            with self._lock:
                # It may never have started: the next call must not wait for it.
                if self._waiting.get(key) is asyncio.current_task():
                    del self._waiting[key]
            raise
        return result


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """An error is raised to those who wait; if all were cancelled, it concerns nobody."""
    if not task.cancelled():
        task.exception()
