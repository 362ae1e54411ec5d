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

from ackline.errors import StoreError, StoreFull
from ackline.queue.chunks import in_chunks

logger = logging.getLogger("ackline")

T = TypeVar("T")
A = TypeVar("A")


class Call(msgspec.Struct, Generic[T, A], gc=False):
    """One caller's item, and where its answer goes."""

    item: T
    future: asyncio.Future[A]
    answer: A | None = None
    error: Exception | None = None


Calls = list[Call[Any, Any]]
Parcel = tuple[asyncio.AbstractEventLoop, Calls]


SLICE = 0.02
"""Seconds for which a carrier keeps its thread before others that wait for one have their turn."""


class Carrier:
    """Takes parcels of calls to a verb, one after the other, and brings the answers back.

    It has a thread of the pool only while there is something to carry: queues may be thousands.
    """

    def __init__(self, pool: Executor, make: Callable[[Calls], None]) -> None:
        self._pool = pool
        self._make = make
        self._parcels: list[Parcel] = []
        self._under_way = False
        self._changed = threading.Condition()

    def send(self, parcel: Parcel) -> None:
        """Have these calls made soon."""
        with self._changed:
            self._parcels.append(parcel)
            begin, self._under_way = not self._under_way, True
        if begin:
            self._submit()

    def close(self) -> None:
        """Wait until all that was sent is done, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, timeout=5)

    def _submit(self) -> None:
        try:
            self._pool.submit(self._run)
        except RuntimeError:  # closed: what was sent is still to be done
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        until = time.monotonic() + SLICE
        while time.monotonic() < until:
            with self._changed:
                parcels, self._parcels = self._parcels, []
                if not parcels:
                    self._under_way = False
                    self._changed.notify_all()
                    return
            self._carry(parcels)
        self._submit()

    def _carry(self, parcels: list[Parcel]) -> None:
        self._make([call for _, calls in parcels for call in calls])
        by_loop: dict[asyncio.AbstractEventLoop, Calls] = {}
        for loop, calls in parcels:
            by_loop.setdefault(loop, []).extend(calls)
        for loop, calls in by_loop.items():
            try:
                loop.call_soon_threadsafe(_deliver, calls)
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
        self._carrier = Carrier(pool, self._make_all)
        self._verb = verb
        self._limit = limit
        self._size_of = size_of
        self._gathering: dict[asyncio.AbstractEventLoop, list[Call[T, A]]] = {}

    def submit(self, item: T) -> asyncio.Future[A]:
        """Send an item together with others that come at this time; await the answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        calls = self._gathering.get(loop)
        if calls is None:
            calls = self._gathering[loop] = []
            loop.call_soon(self._hand_over, loop)
        calls.append(Call(item, future))
        return future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._carrier.send((loop, self._gathering.pop(loop)))

    def close(self) -> None:
        """Wait until all that was submitted is done, but not for ever."""
        self._carrier.close()

    def _make_all(self, calls: list[Call[T, A]]) -> None:
        wanted = [call for call in calls if not call.future.cancelled()]
        for batch in in_chunks(wanted, lambda call: self._size_of(call.item), self._limit):
            self._make_batch(batch)

    def _make_batch(self, batch: list[Call[T, A]]) -> None:
        try:
            answers = self._verb([call.item for call in batch])
        except StoreFull as error:
            self._make_what_fits(batch, error)
        except StoreError as error:
            _fail(batch, error)
        except Exception as error:
            self._make_each(batch, error)
        else:
            for call, answer in zip(batch, answers, strict=True):
                call.answer = answer

    def _make_each(self, batch: list[Call[T, A]], error: Exception) -> None:
        """One item of a batch cannot be sent to the store: only its caller is to get the error."""
        if len(batch) == 1:
            batch[0].error = error
            return
        for call in batch:
            self._make_batch([call])

    def _make_what_fits(self, batch: list[Call[T, A]], error: StoreFull) -> None:
        """A batch is refused as a whole, though there may be room for a part of it."""
        if len(batch) == 1:
            batch[0].error = error
            return
        half = len(batch) // 2
        self._make_batch(batch[:half])
        self._make_batch(batch[half:])


def _fail(batch: Calls, error: Exception) -> None:
    for call in batch:
        call.error = error


def _deliver(calls: Calls) -> None:
    for call in calls:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.answer)
