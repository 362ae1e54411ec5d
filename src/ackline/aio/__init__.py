"""Queues for asyncio: concurrent calls share a write, and nothing blocks the event loop."""

from ackline.aio.journal import AsyncJournalReader, AsyncWatcher
from ackline.aio.queues import AsyncQueue, AsyncQueues, open
from ackline.aio.worker import Worker

__all__ = ["AsyncJournalReader", "AsyncQueue", "AsyncQueues", "AsyncWatcher", "Worker", "open"]
