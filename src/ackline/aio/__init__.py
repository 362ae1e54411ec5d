"""The same queues for asyncio: concurrent calls share a write, and nothing blocks the loop."""

from typing import TYPE_CHECKING, NoReturn

from ackline.aio.journal import AsyncJournalReader, AsyncWatcher
from ackline.aio.queues import AsyncQueue, AsyncQueues, open

__all__ = ["AsyncJournalReader", "AsyncQueue", "AsyncQueues", "AsyncWatcher", "open"]

if not TYPE_CHECKING:  # a type checker would take any name for one that is here

    def __getattr__(name: str) -> NoReturn:
        """Say where the worker is, which people look for here."""
        hint = ": use ackline.Worker(queue.sync), which runs async handlers too"
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{hint if name == 'Worker' else ''}"
        )
