"""Claims of one client, from one queue or from several by their shares."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ackline.core.job import QueueKey, Record
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.delivery.claim_source import ClaimOptions, ClaimSource
from ackline.service.delivery.fair_share import Weights
from ackline.service.delivery.in_flight import InFlightJob
from ackline.service.http.sse import StreamSignal
from ackline.stores.contract import MAX_ANSWER_BYTES
from ackline.stores.shared.byte_limit import ByteLimit


class Claimer:
    """Claims from the queue that got the least by its weight, among those that may have jobs."""

    def __init__(
        self, caller: Caller, weights: Weights, max_jobs: int, options: ClaimOptions
    ) -> None:
        queues = [caller.queue(name, Permission.CLAIM).sync for name, _ in weights]
        self.runtime = runtime = caller.runtime
        self.tenant = caller.tenant
        self._shares, shares = runtime.fair_share.of(caller.tenant, weights, max_jobs)
        self._kinds = options.kinds
        self._sources = {
            queue.key: ClaimSource(runtime, queue, options, share)
            for queue, share in zip(queues, shares, strict=True)
        }

    @property
    def queue_count(self) -> int:
        """How many queues it claims from."""
        return len(self._sources)

    async def claim(self, limit: int) -> list[InFlightJob]:
        """Claim what is there now, up to `limit` jobs and `MAX_ANSWER_BYTES`.

        A client that leaves meanwhile gets nothing.
        """
        claimed, budget = list[InFlightJob](), ByteLimit(MAX_ANSWER_BYTES)
        candidates = [source for source in self._sources.values() if source.promising]
        try:
            while candidates and len(claimed) < limit and not budget.reached:
                source, part = self._next(candidates, limit - len(claimed))
                jobs = await source.claim(part, budget.remaining)
                claimed += [InFlightJob(source.key, job) for job in jobs]
                budget.add(sum(len(job.payload) for job in jobs))
                if len(jobs) < part:
                    candidates.remove(source)
        except BaseException:
            self.runtime.start_task(self.release(claimed))
            raise
        self._wake_others()
        return claimed

    def _next(self, candidates: list[ClaimSource], limit: int) -> tuple[ClaimSource, int]:
        share, part = self._shares.next_share([source.share for source in candidates], limit)
        return next(source for source in candidates if source.share is share), part

    def _wake_others(self) -> None:
        for source in self._sources.values():
            source.wake_other()

    async def release(self, jobs: Iterable[InFlightJob]) -> None:
        """Give back jobs that the client was not sent, or will not process."""
        for key, records in _by_queue(jobs).items():
            await self._sources[key].release(records)

    async def recover(self, jobs: Sequence[InFlightJob]) -> None:
        """Take back jobs, in the order they were sent, that a client left without settling."""
        first = jobs[0]
        for key, records in _by_queue(jobs).items():
            await self._sources[key].recover(records, first.job.id if key == first.queue else None)

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
                source.set_wakeup(wakeups.enter_context(wakeup))
                wakeups.callback(source.set_wakeup, None)
            wakeups.callback(self._wake_others)  # this client may have been woken, and leaves
            yield

    def mark_promising(self, queue: QueueKey) -> None:
        """A claim from this queue may bring something again."""
        self._sources[queue].mark_promising()

    async def wait_for_notification(self, stream: StreamSignal, seconds: float) -> None:
        """Wait until a queue may have jobs, the stream is woken, or the time is over."""
        for source in self._sources.values():
            source.wait(stream.wake)
        try:
            await stream.wait(seconds)
        finally:
            for source in self._sources.values():
                source.cancel()

    async def wait_for(self, limit: int, seconds: float, stream: StreamSignal) -> list[InFlightJob]:
        """Up to `limit` jobs, waiting up to `seconds` for the first."""
        until = time.monotonic() + seconds
        with self.listening():
            while not stream.ended:
                jobs = await self.claim(limit)
                left = until - time.monotonic()
                if jobs or left <= 0:
                    return jobs
                await self.wait_for_notification(stream, left)
        return []


def _by_queue(jobs: Iterable[InFlightJob]) -> dict[QueueKey, list[Record]]:
    by_queue: dict[QueueKey, list[Record]] = {}
    for handed in jobs:
        by_queue.setdefault(handed.queue, []).append(handed.job)
    return by_queue
