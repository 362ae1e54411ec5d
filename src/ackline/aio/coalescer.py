"""Many awaiting callers, few calls to the store: items that come together go together."""

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
    """One caller's item, and where its answer goes."""

    item: T
    future: asyncio.Future[A]
    answer: A | None = None
    error: Exception | None = None


PendingCalls = list[PendingCall[Any, Any]]
LoopCalls = tuple[asyncio.AbstractEventLoop, PendingCalls]


MAX_THREAD_SECONDS = 0.02
"""Seconds for which a carrier keeps its thread before others that wait for one have their turn."""


class BatchRunner:
    """Takes parcels of calls to a verb, one after the other, and brings the answers back.

    It has a thread of the pool only while there is something to carry: queues may be thousands.
    """

    def __init__(self, pool: Executor, make: Callable[[PendingCalls], None]) -> None:
        self._pool = pool
        self._run_batch = make
        self._waiting: list[LoopCalls] = []
        self._running = False
        self._changed = threading.Condition()

    def send(self, parcel: LoopCalls) -> None:
        """Have these calls made soon."""
        with self._changed:
            self._waiting.append(parcel)
            begin, self._running = not self._running, True
        if begin:
            self._submit()

    def close(self) -> None:
        """Wait until all that was sent is done, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=5)

    def _submit(self) -> None:
        try:
            self._pool.submit(self._run)
        except RuntimeError:  # closed: what was sent is still to be done
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        until = time.monotonic() + MAX_THREAD_SECONDS
        while time.monotonic() < until:
            with self._changed:
                parcels, self._waiting = self._waiting, []
                if not parcels:
                    self._running = False
                    self._changed.notify_all()
                    return
            self._run_calls(parcels)
        self._submit()

    def _run_calls(self, parcels: list[LoopCalls]) -> None:
        self._run_batch([call for _, calls in parcels for call in calls])
        by_loop: dict[asyncio.AbstractEventLoop, PendingCalls] = {}
        for loop, calls in parcels:
            by_loop.setdefault(loop, []).extend(calls)
        for loop, calls in by_loop.items():
            try:
                loop.call_soon_threadsafe(_set_results, calls)
            except RuntimeError:
                logger.warning("%d callers left before they were answered", len(calls))


class Coalescer(Generic[T, A]):
    """Gathers the items that callers await into batches of one verb of the store.

    Items of one tick of the event loop are gathered at no cost; while the carrier is away with
    one batch, the next one grows.
    """

    def __init__(
        self,
        pool: Executor,
        verb: Callable[[list[T]], Sequence[A]],
        limit: int,
        size_of: Callable[[T], int] = lambda _item: 0,
    ) -> None:
        self._carrier = BatchRunner(pool, self._run_calls)
        self._verb = verb
        self._limit = limit
        self._size_of = size_of
        self._collected: dict[asyncio.AbstractEventLoop, list[PendingCall[T, A]]] = {}

    def submit(self, item: T) -> asyncio.Future[A]:
        """Send an item together with others that come at this time; await the answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        calls = self._collected.get(loop)
        if calls is None:
            calls = self._collected[loop] = []
            loop.call_soon(self._flush, loop)
        calls.append(PendingCall(item, future))
        return future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._carrier.send((loop, self._collected.pop(loop)))

    def close(self) -> None:
        """Wait until all that was submitted is done, but not for ever."""
        self._carrier.close()

    def _run_calls(self, calls: list[PendingCall[T, A]]) -> None:
        wanted = [call for call in calls if not call.future.cancelled()]
        for batch in in_batches(wanted, lambda call: self._size_of(call.item), self._limit):
            self._run_batch(batch)

    def _run_batch(self, batch: list[PendingCall[T, A]]) -> None:
        try:
            answers = self._verb([call.item for call in batch])
        except StoreFull as error:
            self._run_halves(batch, error)
        except StoreError as error:
            _fail(batch, error)
        except Exception as error:
            self._run_one_by_one(batch, error)
        else:
            for call, answer in zip(batch, answers, strict=True):
                call.answer = answer

    def _run_one_by_one(self, batch: list[PendingCall[T, A]], error: Exception) -> None:
        """One item of a batch cannot be sent to the store: only its caller is to get the error."""
        if len(batch) == 1:
            batch[0].error = error
            return
        for call in batch:
            self._run_batch([call])

    def _run_halves(self, batch: list[PendingCall[T, A]], error: StoreFull) -> None:
        """A batch is refused as a whole, though there may be room for a part of it."""
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
            call.future.set_result(call.answer)
