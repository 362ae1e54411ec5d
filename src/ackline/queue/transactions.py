"""Joining the transactions of callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from ackline.stores.contract import JoinedTransaction, Store

T = TypeVar("T")


class BlockingTransaction(Protocol):
    """A connection or session that blocks while it works."""

    def commit(self) -> None:
        """Commit."""


class AsyncTransaction(Protocol):
    """A connection or session of asyncio, whose methods are awaited."""

    def commit(self) -> Awaitable[None]:
        """Commit."""


def joined_store(
    store: Store, connection: object | None
) -> AbstractContextManager[JoinedTransaction]:
    """The store's part in a caller's transaction; without one, the store itself."""
    return nullcontext(store) if connection is None else store.join(connection)


async def run_joined(store: Store, connection: object, work: Callable[[JoinedTransaction], T]) -> T:
    """Do something in a caller's transaction on a connection of asyncio."""
    # A thread of its own: the work may have to wait for another transaction of this same event
    # loop, and that one must then find a thread, too.
    thread = ThreadPoolExecutor(1, "ackline join")
    try:
        async with store.join(connection) as joined:
            return await asyncio.get_running_loop().run_in_executor(thread, work, joined)
    finally:
        thread.shutdown(wait=False)
