"""Claims of one client, from one queue or from several by their shares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from ackline.job import QueueKey, Record
from ackline.service.caller import Caller, Scope
from ackline.service.fair_shares import Weights
from ackline.service.held import Handed
from ackline.service.source import Source, Wish
from ackline.service.streams import StreamEnd


class Claims:
    """Takes from the queue that had least by its weight, of those that may have something."""

    def __init__(self, caller: Caller, weights: Weights, most: int, wish: Wish) -> None:
        queues = [caller.queue(name, Scope.CONSUME).sync for name, _ in weights]
        self.runtime = runtime = caller.runtime
        self.tenant = caller.tenant
        self._shares, shares = runtime.fair_shares.of(caller.tenant, weights, most)
        self._kinds = wish.kinds
        self._sources = {
            queue.key: Source(runtime, queue, wish, share)
            for queue, share in zip(queues, shares, strict=True)
        }

    async def claim(self, limit: int) -> list[Handed]:
        """Claim what is there now, up to `limit`; a client that leaves meanwhile gets nothing."""
        found: list[Handed] = []
        left = [source for source in self._sources.values() if source.promising]
        try:
            while left and len(found) < limit:
                source, part = self._next(left, limit - len(found))
                jobs = await source.claim(part)
                found += [Handed(source.key, job) for job in jobs]
                if len(jobs) < part:
                    left.remove(source)
        except BaseException:
            self.runtime.soon(self.release(found))
            raise
        self._pass_on()
        return found

    def _next(self, among: list[Source], limit: int) -> tuple[Source, int]:
        share, part = self._shares.next([source.share for source in among], limit)
        return next(source for source in among if source.share is share), part

    def _pass_on(self) -> None:
        for source in self._sources.values():
            source.pass_on()

    async def release(self, jobs: Iterable[Handed]) -> None:
        """Give back jobs that the client was not sent, or will not process."""
        for key, records in _by_queue(jobs).items():
            await self._sources[key].release(records)

    async def take_back(self, jobs: Sequence[Handed]) -> None:
        """Take back what a client was sent, in this order, and had not settled when it left."""
        first = jobs[0]
        for key, records in _by_queue(jobs).items():
            await self._sources[key].take_back(
                records, first.job.id if key == first.queue else None
            )

    # --- waiting for more ---

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Hear news inside this block."""
        several = len(self._sources) > 1
        async with AsyncExitStack() as bells:
            for key, source in self._sources.items():
                bell = self.runtime.bells.bell([key], "ready", self._kinds)
                source.hear(await bells.enter_async_context(bell), always=several)
                bells.callback(source.hear_no_more)
            yield

    def look_at(self, queue: QueueKey) -> None:
        """A claim from this queue may bring something again."""
        self._sources[queue].look()

    async def news(self, stream: StreamEnd, seconds: float) -> None:
        """Wait until a queue may have jobs, for a sign to the stream, or for so many seconds."""
        for source in self._sources.values():
            source.join(stream.wake)
        try:
            await stream.pause(seconds)
        except asyncio.CancelledError:
            self._leave(stream.wake)
            self._pass_on()  # what was rung for one who has left
            raise
        self._leave(stream.wake)

    def _leave(self, waiter: asyncio.Event) -> None:
        for source in self._sources.values():
            source.leave(waiter)

    async def wait_for(self, limit: int, seconds: float, stream: StreamEnd) -> list[Handed]:
        """Up to `limit` jobs, waiting so many seconds for the first."""
        until = time.monotonic() + seconds
        async with self.listening():
            while not stream.ended:
                jobs = await self.claim(limit)
                left = until - time.monotonic()
                if jobs or left <= 0:
                    return jobs
                await self.news(stream, left)
        return []


def _by_queue(jobs: Iterable[Handed]) -> dict[QueueKey, list[Record]]:
    found: dict[QueueKey, list[Record]] = {}
    for handed in jobs:
        found.setdefault(handed.queue, []).append(handed.job)
    return found
