"""Claims of one client, from one queue or from several by their shares."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ackline.job import QueueKey, Record
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.fair_shares import Weights
from ackline.service.held import Handed
from ackline.service.source import Source, Wish
from ackline.service.streams import StreamEnd
from ackline.stores.base import ANSWER_BYTES
from ackline.stores.budget import Budget


class Claims:
    """Claims from the queue that got the least by its weight, among those that may have jobs."""

    def __init__(self, caller: Caller, weights: Weights, most: int, wish: Wish) -> None:
        queues = [caller.queue(name, Access.CLAIM).sync for name, _ in weights]
        self.runtime = runtime = caller.runtime
        self.tenant = caller.tenant
        self._shares, shares = runtime.fair_shares.of(caller.tenant, weights, most)
        self._kinds = wish.kinds
        self._sources = {
            queue.key: Source(runtime, queue, wish, share)
            for queue, share in zip(queues, shares, strict=True)
        }

    @property
    def names(self) -> int:
        """How many queues it claims from."""
        return len(self._sources)

    async def claim(self, limit: int) -> list[Handed]:
        """Claim what is there now, up to `limit` jobs and `ANSWER_BYTES`.

        A client that leaves meanwhile gets nothing.
        """
        claimed, budget = list[Handed](), Budget(ANSWER_BYTES)
        candidates = [source for source in self._sources.values() if source.promising]
        try:
            while candidates and len(claimed) < limit and not budget.reached:
                source, part = self._next(candidates, limit - len(claimed))
                jobs = await source.claim(part, budget.left)
                claimed += [Handed(source.key, job) for job in jobs]
                budget.spend(sum(len(job.payload) for job in jobs))
                if len(jobs) < part:
                    candidates.remove(source)
        except BaseException:
            self.runtime.soon(self.release(claimed))
            raise
        self._pass_on()
        return claimed

    def _next(self, candidates: list[Source], limit: int) -> tuple[Source, int]:
        share, part = self._shares.next([source.share for source in candidates], limit)
        return next(source for source in candidates if source.share is share), part

    def _pass_on(self) -> None:
        for source in self._sources.values():
            source.pass_on()

    async def release(self, jobs: Iterable[Handed]) -> None:
        """Give back jobs that the client was not sent, or will not process."""
        for key, records in _by_queue(jobs).items():
            await self._sources[key].release(records)

    async def take_back(self, jobs: Sequence[Handed]) -> None:
        """Take back jobs, in the order they were sent, that a client left without settling."""
        first = jobs[0]
        for key, records in _by_queue(jobs).items():
            await self._sources[key].take_back(
                records, first.job.id if key == first.queue else None
            )

    # --- waiting for more ---

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear news of the queues inside this block."""
        # While a client is busy with one queue, it has to learn that another has jobs.
        several = len(self._sources) > 1
        of_queue = self.runtime.wakeups.of_queue
        with ExitStack() as wakeups:
            for key, source in self._sources.items():
                wakeup = of_queue(key, "ready", self._kinds, pinned=several)
                source.use(wakeups.enter_context(wakeup))
                wakeups.callback(source.use, None)
            wakeups.callback(self._pass_on)  # this client may have been woken, and leaves
            yield

    def look_at(self, queue: QueueKey) -> None:
        """A claim from this queue may bring something again."""
        self._sources[queue].look()

    async def news(self, stream: StreamEnd, seconds: float) -> None:
        """Wait until a queue may have jobs, the stream is woken, or the time is over."""
        for source in self._sources.values():
            source.join(stream.wake)
        try:
            await stream.pause(seconds)
        finally:
            for source in self._sources.values():
                source.leave()

    async def wait_for(self, limit: int, seconds: float, stream: StreamEnd) -> list[Handed]:
        """Up to `limit` jobs, waiting up to `seconds` for the first."""
        until = time.monotonic() + seconds
        with self.listening():
            while not stream.ended:
                jobs = await self.claim(limit)
                left = until - time.monotonic()
                if jobs or left <= 0:
                    return jobs
                await self.news(stream, left)
        return []


def _by_queue(jobs: Iterable[Handed]) -> dict[QueueKey, list[Record]]:
    by_queue: dict[QueueKey, list[Record]] = {}
    for handed in jobs:
        by_queue.setdefault(handed.queue, []).append(handed.job)
    return by_queue
