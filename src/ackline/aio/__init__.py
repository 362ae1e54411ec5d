"""Queues for asyncio: concurrent calls share a write, and nothing blocks the event loop."""

from typing import TYPE_CHECKING, NoReturn

from ackline.aio.journal import AsyncJournalReader, AsyncWatcher
from ackline.aio.queues import AsyncQueue, AsyncQueues, open

__all__ = ["AsyncJournalReader", "AsyncQueue", "AsyncQueues", "AsyncWatcher", "open"]

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> NoReturn:
        """Tell users where the worker is."""
        hint = ": use ackline.Worker(queue.sync), which runs async handlers too"
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{hint if name == 'Worker' else ''}"
        )
