"""Queues for asyncio: concurrent calls share a write, and nothing blocks the event loop."""

from ackline.aio.journal import AsyncJournalReader, AsyncWatcher
from ackline.aio.queues import AsyncQueue, AsyncQueues
from ackline.aio.queues import open as open
from ackline.aio.worker import Worker

# Without `open`: an `import *` must not replace the built-in one.
__all__ = ["AsyncJournalReader", "AsyncQueue", "AsyncQueues", "AsyncWatcher", "Worker"]
