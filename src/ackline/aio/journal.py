"""Reading, following and watching a queue's journal from asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self

from ackline.aio.listener import AsyncListener
from ackline.aio.thread_pools import ThreadPools
from ackline.core.events import Act, Event
from ackline.core.job import QueueKey, State
from ackline.queue.error_callbacks import ErrorCallbacks
from ackline.queue.journal.follow import MAX_WAIT, PAGE_SIZE, Watcher
from ackline.queue.journal.reader import JournalReader
from ackline.stores.contract import Store

logger = logging.getLogger("ackline")

Callback = Callable[[Event], Awaitable[None] | None]
ErrorCallback = Callable[[Exception], Awaitable[None] | None]


class AsyncJournalReader:
    """Reads a queue's journal from where this name last saved; for one task at a time.

    >>> reader = queue.reader("audit")  # doctest: +SKIP
    >>> for event in await reader.read():  # doctest: +SKIP
    ...     await keep(event)
    >>> await reader.save()  # doctest: +SKIP
    """

    def __init__(self, sync: JournalReader, threads: ThreadPools) -> None:
        self.sync = sync
        self.name = sync.name
        self._threads = threads

    @property
    def cursor(self) -> str | None:
        """The event after which it continues; set it to read from elsewhere. None at first."""
        return self.sync.cursor

    @cursor.setter
    def cursor(self, cursor: str) -> None:
        self.sync.cursor = cursor

    async def read(self, limit: int = PAGE_SIZE) -> list[Event]:
        """The next events, up to `limit`; empty when there are no more yet.

        Raises `EventsDropped` if some that it has not read are gone.
        """
        return await self._threads.call(self.sync.read, limit)

    async def save(self) -> None:
        """Save the cursor: from now on this name continues after what was read.

        Raises `ReaderMoved`, and changes nothing, if another process saved under this name.
        """
        await self._threads.call(self.sync.save)

    async def forget(self) -> None:
        """Delete the reader: events are no longer kept for it, and its next read starts over."""
        await self._threads.call(self.sync.forget)


async def follow_events(
    store: Store, key: QueueKey, threads: ThreadPools, after: str | None, seconds: float | None
) -> AsyncIterator[Event]:
    """Events after a cursor, in order; ends after `seconds` without more (None: never)."""
    async with AsyncListener(threads, store, key, "changes") as listener:
        idle_since = time.monotonic()
        while True:
            events = await threads.call(store.events, key, after, PAGE_SIZE)
            for event in events:
                yield event
            if events:
                after, idle_since = events[-1].cursor, time.monotonic()
                continue
            left = MAX_WAIT
            if seconds is not None:
                left = min(left, seconds - (time.monotonic() - idle_since))
            if left <= 0:
                return
            await listener.wait(left)


class AsyncErrorSubscription:
    """Calls back on an event loop for each error, until it is closed."""

    def __init__(
        self, errors: ErrorCallbacks, callback: ErrorCallback, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._callback = callback
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription = errors.add(self._on_error)

    async def close(self) -> None:
        """Stop calling back; a running callback is not interrupted."""
        self._subscription.close()

    def _on_error(self, error: Exception) -> None:
        """Have the event loop call back; runs in the thread of the error."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start_callback, error)

    def _start_callback(self, error: Exception) -> None:
        task = self._loop.create_task(self._call(error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, error: Exception) -> None:
        try:
            result = self._callback(error)
            if inspect.isawaitable(result):
                await result
        except Exception:
            logger.exception("a callback for errors failed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class AsyncWatcher:
    """Calls back on an event loop, one event after the other."""

    def __init__(
        self,
        store: Store,
        key: QueueKey,
        event_type: State | Act,
        callback: Callback,
        errors: ErrorCallbacks,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._key = key
        self._callback = callback
        self._errors = errors
        self._loop = loop
        self._callback_task: asyncio.Task[None] | None = None
        self._called_back = threading.Event()
        self._closed = False
        self._watcher = Watcher(store, key, event_type, self._on_event, errors)

    async def close(self) -> None:
        """Stop calling back; a running callback is not interrupted."""
        self._closed = True
        self._called_back.set()
        await asyncio.to_thread(self._watcher.close)

    def _on_event(self, event: Event) -> None:
        """Have the event loop call back, and wait until it has; runs in the watcher's thread."""
        self._called_back.clear()
        if self._closed or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._start_callback, event)
        while not self._called_back.wait(MAX_WAIT) and not self._loop.is_closed():
            continue

    def _start_callback(self, event: Event) -> None:
        self._callback_task = self._loop.create_task(self._call(event))
        self._callback_task.add_done_callback(lambda _: self._called_back.set())

    async def _call(self, event: Event) -> None:
        if self._closed:
            return
        try:
            result = self._callback(event)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            logger.exception("a callback for events of %s failed", self._key)
            self._errors.report(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()
