"""Registered readers of a journal, for asyncio."""

from __future__ import annotations

from ackline.aio.base import ThreadPools
from ackline.core.events import Event
from ackline.queue.journal.reader import PAGE_SIZE, JournalReader


class AsyncJournalReader:
    """Reads a queue's journal on from where this name last saved; for one task at a time.

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
        """After which event it continues; set it to read from elsewhere. None before it began."""
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
        """Note that all that was read is done: from now on this name continues after it.

        Raises `ReaderMoved`, and changes nothing, if someone else saved under this name.
        """
        await self._threads.call(self.sync.save)

    async def forget(self) -> None:
        """Give the name up: nothing is kept for it any more, and the next read starts over."""
        await self._threads.call(self.sync.forget)
