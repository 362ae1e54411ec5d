"""Combines the calls of concurrent callers into few calls to the store."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Generic, TypeVar

import msgspec

from ackline.core.errors import StoreError, StoreFull
from ackline.queue.drafts.batches import in_batches

logger = logging.getLogger("ackline")

T = TypeVar("T")
A = TypeVar("A")


class PendingCall(msgspec.Struct, Generic[T, A], gc=False):
    """One caller's item, and the future of its result."""

    item: T
    future: asyncio.Future[A]
    result: A | None = None
    error: Exception | None = None


PendingCalls = list[PendingCall[Any, Any]]
LoopCalls = tuple[asyncio.AbstractEventLoop, PendingCalls]


MAX_THREAD_SECONDS = 0.02
"""Seconds for which a batch runner keeps its thread while others may wait for one."""


class BatchRunner:
    """Runs calls in batches, one after the other, and sets the results in their event loops.

    It uses a thread of the pool only while there are calls: there may be thousands of queues.
    """

    def __init__(self, pool: Executor, run_batch: Callable[[PendingCalls], None]) -> None:
        self._pool = pool
        self._run_batch = run_batch
        self._waiting: list[LoopCalls] = []
        self._running = False
        self._changed = threading.Condition()

    def send(self, calls: LoopCalls) -> None:
        """Run these calls soon."""
        with self._changed:
            self._waiting.append(calls)
            start, self._running = not self._running, True
        if start:
            self._submit()

    def close(self) -> None:
        """Wait for all calls, but not forever."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=5)

    def _submit(self) -> None:
        try:
            self._pool.submit(self._run)
        except RuntimeError:  # closed: pending calls still have to run
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        until = time.monotonic() + MAX_THREAD_SECONDS
        while time.monotonic() < until:
            with self._changed:
                waiting, self._waiting = self._waiting, []
                if not waiting:
                    self._running = False
                    self._changed.notify_all()
                    return
            self._run_calls(waiting)
        self._submit()

    def _run_calls(self, waiting: list[LoopCalls]) -> None:
        self._run_batch([call for _, calls in waiting for call in calls])
        by_loop: dict[asyncio.AbstractEventLoop, PendingCalls] = {}
        for loop, calls in waiting:
            by_loop.setdefault(loop, []).extend(calls)
        for loop, calls in by_loop.items():
            try:
                loop.call_soon_threadsafe(_set_results, calls)
            except RuntimeError:
                logger.warning(
                    "the event loop of %d callers was closed before their results", len(calls)
                )


class Coalescer(Generic[T, A]):
    """Collects the items of concurrent callers into batches for one method of the store.

    Items of one iteration of the event loop are collected at no cost; while one batch runs, the
    next one grows.
    """

    def __init__(
        self,
        pool: Executor,
        method: Callable[[list[T]], Sequence[A]],
        limit: int,
        size_of: Callable[[T], int] = lambda _item: 0,
    ) -> None:
        self._runner = BatchRunner(pool, self._run_calls)
        self._method = method
        self._limit = limit
        self._size_of = size_of
        self._collected: dict[asyncio.AbstractEventLoop, list[PendingCall[T, A]]] = {}

    def submit(self, item: T) -> asyncio.Future[A]:
        """Send an item together with others submitted at this time; await the result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        calls = self._collected.get(loop)
        if calls is None:
            calls = self._collected[loop] = []
            loop.call_soon(self._flush, loop)
        calls.append(PendingCall(item, future))
        return future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._runner.send((loop, self._collected.pop(loop)))

    def close(self) -> None:
        """Wait for all submitted items, but not forever."""
        self._runner.close()

    def _run_calls(self, calls: list[PendingCall[T, A]]) -> None:
        pending = [call for call in calls if not call.future.cancelled()]
        for batch in in_batches(pending, lambda call: self._size_of(call.item), self._limit):
            self._run_batch(batch)

    def _run_batch(self, batch: list[PendingCall[T, A]]) -> None:
        try:
            results = self._method([call.item for call in batch])
        except StoreFull as error:
            self._run_halves(batch, error)
        except StoreError as error:
            _fail(batch, error)
        except Exception as error:
            self._run_one_by_one(batch, error)
        else:
            for call, result in zip(batch, results, strict=True):
                call.result = result

    def _run_one_by_one(self, batch: list[PendingCall[T, A]], error: Exception) -> None:
        """Find the item that cannot be sent to the store: only its caller gets the error."""
        if len(batch) == 1:
            batch[0].error = error
            return
        for call in batch:
            self._run_batch([call])

    def _run_halves(self, batch: list[PendingCall[T, A]], error: StoreFull) -> None:
        """Retry in halves: a batch is rejected as a whole, but a part of it may fit."""
        if len(batch) == 1:
            batch[0].error = error
            return
        half = len(batch) // 2
        self._run_batch(batch[:half])
        self._run_batch(batch[half:])


def _fail(batch: PendingCalls, error: Exception) -> None:
    for call in batch:
        call.error = error


def _set_results(calls: PendingCalls) -> None:
    for call in calls:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)
