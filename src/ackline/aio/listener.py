"""Waits for a store's notifications without blocking the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from ackline.aio.thread_pools import ThreadPools
from ackline.core.job import QueueKey
from ackline.stores.contract import Listener, Store, Topic


class AsyncListener:
    """A store's listener in an `async with` block; leaving it ends the current wait."""

    def __init__(
        self,
        threads: ThreadPools,
        store: Store,
        key: QueueKey,
        topic: Topic,
        kinds: frozenset[str] | None = None,
    ) -> None:
        self._threads = threads
        self._store = store
        self._key = key
        self._topic: Topic = topic
        self._kinds = kinds
        self._listener: Listener | None = None
        self._in_use = threading.Lock()
        self._closed = False

    async def wait(self, seconds: float) -> bool:
        """Wait for a notification (True), or until the time is up (False)."""
        return await self._threads.wait(self._wait, seconds)

    async def __aenter__(self) -> Self:
        try:
            await self._threads.call(self._open)
        except asyncio.CancelledError:
            self._close_soon()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._close_soon()

    def _open(self) -> None:
        with self._in_use:
            if not self._closed:
                self._listener = self._store.listen([self._key], self._topic, self._kinds)

    def _wait(self, seconds: float) -> bool:
        with self._in_use:
            return self._closed or self._listener is None or self._listener.wait(seconds)

    def _close_soon(self) -> None:
        self._closed = True
        if self._listener is not None:
            self._listener.wake()
        self._threads.run_soon(self._close)

    def _close(self) -> None:
        # After the current wait: its files must not be closed while it uses them.
        with self._in_use:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
