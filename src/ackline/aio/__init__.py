"""The same queues for asyncio: concurrent calls share a write, and nothing blocks the loop."""

from ackline.aio.queues import AsyncQueue, AsyncQueues, open
from ackline.aio.reader import AsyncJournalReader
from ackline.aio.watching import AsyncWatcher

__all__ = ["AsyncJournalReader", "AsyncQueue", "AsyncQueues", "AsyncWatcher", "open"]
