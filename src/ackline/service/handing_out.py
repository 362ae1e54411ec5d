"""Handing jobs out: to a request that waits for some, and to a stream that never ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from litestar.types import Receive

from ackline import lifecycle
from ackline.aio import AsyncQueue
from ackline.aio.consumer import Handover
from ackline.job import QueueKey, Record, State
from ackline.lifecycle import Transition
from ackline.queue.consumer import time_to_next
from ackline.service.bells import Bell
from ackline.service.held import Window
from ackline.service.runtime import Runtime
from ackline.service.streams import PING, StreamEnd

logger = logging.getLogger("ackline.service")

FIRST_LOOK, LAST_LOOK = 0.01, 1.0
"""Seconds after which a full window is looked at: doubled each time. Another process of the
service may have settled its jobs, and who worked for long can wait a little longer."""

Write = Callable[[Record], bytes]


class Claims:
    """Claims of one client, from one queue."""

    def __init__(
        self,
        runtime: Runtime,
        queue: AsyncQueue[Any, Any],
        *,
        lease: float | None = None,
        kinds: frozenset[str] | None = None,
        worker: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.queue = queue.sync
        self.key: QueueKey = queue.sync.key
        self._lease = lease
        self._kinds = kinds
        self._worker = worker

    def bell(self) -> Any:
        """Rings when there may be something to claim."""
        return self.runtime.bells.bell([self.key], "ready", self._kinds)

    async def claim(self, limit: int, bell: Bell | None = None) -> list[Record]:
        """What is there now; a client that leaves meanwhile gets nothing, and nothing is lost."""
        request = await self.runtime.call(
            self.queue.claim_request, limit, self._lease, self._kinds, self._worker
        )
        handover = Handover(self.queue, request)
        try:
            claimed = await self.runtime.call(handover.claim)
        except asyncio.CancelledError:
            self.runtime.threads.soon(handover.abandon)
            raise
        self.runtime.metrics.work.claimed(self.key, claimed)
        if bell is not None:
            if len(claimed.jobs) == limit:
                bell.ring()  # there may be more, for someone else
            else:
                bell.expect(time_to_next(claimed))
        return claimed.jobs

    async def wait_for(self, limit: int, seconds: float, stream: StreamEnd) -> list[Record]:
        """Up to `limit` jobs, waiting so many seconds for the first."""
        until = time.monotonic() + seconds
        async with self.bell() as bell:
            while not stream.ended:
                jobs = await self.claim(limit, bell)
                left = until - time.monotonic()
                if jobs or left <= 0:
                    return jobs
                await next_ring(bell, stream, left)
        return []

    async def release(self, jobs: list[Record]) -> None:
        """Give back what a client will not deal with."""
        try:
            transitions = await self.runtime.call(self._releases, jobs)
            verdicts = await self.runtime.call(self.queue.apply, transitions)
            self.runtime.metrics.work.settled(self.key, transitions, verdicts)
        except Exception:
            logger.exception("%d jobs of %s are left to their leases", len(jobs), self.key)

    def _releases(self, jobs: list[Record]) -> list[Transition]:
        policy = self.queue.policy
        return [lifecycle.release(job, "its consumer left", policy(job)) for job in jobs]


async def hand_out(claims: Claims, limit: int, wait: float, receive: Receive) -> list[Record]:
    """Claim for a request; what it got is remembered until it is settled."""
    runtime = claims.runtime
    if runtime.draining:
        return []
    jobs = await (_await_jobs(claims, limit, wait, receive) if wait > 0 else claims.claim(limit))
    runtime.held.add(claims.key, jobs)
    return jobs


async def _await_jobs(claims: Claims, limit: int, seconds: float, receive: Receive) -> list[Record]:
    stream = claims.runtime.streams.open()
    watching = asyncio.create_task(stream.watch(receive))
    try:
        jobs = await claims.wait_for(limit, seconds, stream)
    finally:
        watching.cancel()
        claims.runtime.streams.close(stream)
    if jobs and stream.left:
        await claims.release(jobs)
        return []
    return jobs


async def next_ring(bell: Bell, stream: StreamEnd, seconds: float) -> None:
    """Wait for a bell, for a sign to the stream, or for so many seconds."""
    bell.join(stream.wake)
    try:
        await stream.pause(seconds)
    except asyncio.CancelledError:
        if not bell.leave(stream.wake):
            bell.ring()  # it rang for one who has left
        raise
    bell.leave(stream.wake)


class Feed:
    """One client's stream of jobs: never more than its window, and all given back at the end."""

    def __init__(
        self, claims: Claims, prefetch: int, write: Write, until: float | None = None
    ) -> None:
        self._claims = claims
        self._until = until
        self._key = claims.key
        self._runtime = claims.runtime
        self._write = write
        self._stream = StreamEnd()
        self._window = Window(prefetch, self._stream.wake.set)
        self._look_after = FIRST_LOOK

    async def events(self) -> AsyncIterator[bytes]:
        """What to send, until the client leaves or the service stops."""
        silent_since = float("-inf")
        self._runtime.streams.open(self._until, self._stream)
        try:
            async with self._claims.bell() as bell:
                while not self._stream.ended:
                    if jobs := await self._claim(bell):
                        silent_since = time.monotonic()
                        yield b"".join(map(self._write, jobs))
                        continue
                    left = silent_since + self._runtime.settings.ping_every - time.monotonic()
                    if left <= 0:
                        silent_since = time.monotonic()
                        yield PING
                    else:
                        await self._pause(bell, left)
        finally:
            self._end()

    async def _claim(self, bell: Bell) -> list[Record]:
        if not self._window.room:
            return []
        jobs = await self._claims.claim(self._window.room, bell)
        self._runtime.held.add(self._key, jobs, self._window)
        return jobs

    async def _pause(self, bell: Bell, seconds: float) -> None:
        seconds = min(seconds, self._window.next_lapse)
        if self._window.room:
            await next_ring(bell, self._stream, seconds)
        elif await self._stream.pause(min(seconds, self._look_after)):
            self._look_after = FIRST_LOOK
        else:
            self._look_after = min(LAST_LOOK, self._look_after * 2)
            await self._look_for_lost()
        if not self._window.next_lapse:
            await self._look_for_lost()

    async def _look_for_lost(self) -> None:
        """Make room for what was settled elsewhere, and for leases that have lapsed."""
        held = dict(self._window.jobs)
        found, now = await self._runtime.call(self._look_up, list(held))
        for (id, job), record in zip(held.items(), found, strict=True):
            left = (record.deadline or 0.0) - now if record is not None else 0.0
            mine = record is not None and record.state is State.PROCESSING
            if mine and record is not None and record.token == job.token and left > 0:
                self._window.extend(id, left)
            else:
                self._runtime.held.settled(self._key, id, job.token)

    def _look_up(self, ids: list[str]) -> tuple[list[Record | None], float]:
        store = self._runtime.store
        return store.get(self._key, ids), store.info().now

    def _end(self) -> None:
        self._runtime.streams.close(self._stream)
        if jobs := list(self._window.jobs.values()):
            # Not awaited here: a client that has left cancels what its request awaits.
            self._runtime.soon(self._release(jobs))

    async def _release(self, jobs: list[Record]) -> None:
        await self._claims.release(jobs)
        for job in jobs:
            self._runtime.held.settled(self._key, job.id, job.token)
