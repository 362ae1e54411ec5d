"""An endless stream of jobs for one client."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable

from ackline.errors import StoreClosed, StoreError
from ackline.job import QueueKey, Record, State
from ackline.pauses import Pauses
from ackline.service.claims import Claims
from ackline.service.held import Handed, Place, Window
from ackline.service.streams import LARGE, NOTHING, PING, StreamEnd
from ackline.stores.base import find_each

logger = logging.getLogger("ackline.service")

RETRIES = (0.1, 2.0)
"""Seconds between tries to claim from a store that fails: the first, and the longest."""

FIRST_LOOK, LAST_LOOK = 0.01, 1.0
"""Seconds after which a full window is looked at, doubled each time: another process of the
service may have settled its jobs. A client that worked for long can wait a little longer."""

Write = Callable[[Handed], bytes]


class Feed:
    """One client's stream of jobs: never more than its window, and all given back at the end."""

    def __init__(
        self, claims: Claims, prefetch: int, write: Write, until: float | None = None
    ) -> None:
        self._claims = claims
        self._until = until
        self._runtime = claims.runtime
        self._write = write
        self._stream = StreamEnd()
        self._window = Window(prefetch, self._on_room)
        self._look_after = FIRST_LOOK
        self._retries = Pauses(*RETRIES)
        self._failing = False

    async def events(self) -> AsyncIterator[bytes]:
        """What to send, until the client leaves or the service stops.

        While the store fails, the stream stays open and tries again.
        """
        silent_since = float("-inf")
        self._runtime.streams.open(self._until, self._stream)
        try:
            with self._claims.listening():
                while not self._stream.ended:
                    left = silent_since + self._runtime.settings.ping_every - time.monotonic()
                    jobs = await self._claim_or_pause(left)
                    if jobs or left <= 0:
                        silent_since = time.monotonic()
                        written = await self._written(jobs) or PING
                        del jobs  # not held while the client reads, or until there are more
                        large = len(written) > LARGE
                        yield written
                        del written
                        if large:
                            yield NOTHING
        except Exception:
            self._stream.end()  # by the service: the client has not left
            raise
        finally:
            self._end()

    async def _claim_or_pause(self, seconds: float) -> list[Handed]:
        """Claim jobs; if there are none, wait for up to `seconds`, or until the next retry."""
        try:
            jobs = await self._claim()
            if not jobs and seconds > 0:
                await self._pause(seconds)
        except StoreClosed:
            raise
        except StoreError as error:
            if not self._failing:
                logger.warning("a stream of jobs waits for the store: %s", error)
            self._failing = True
            await self._stream.pause(self._retries.next())
            return []
        self._failing = False
        self._retries.reset()
        return jobs

    async def _written(self, jobs: list[Handed]) -> bytes:
        size = sum(len(handed.job.payload) for handed in jobs)
        return await self._runtime.convert(size, lambda: b"".join(map(self._write, jobs)))

    def _on_room(self, queue: QueueKey) -> None:
        # A job that ended may have made way for others of its group.
        self._claims.look_at(queue)
        self._stream.wake.set()

    async def _claim(self) -> list[Handed]:
        if not self._window.room:
            return []
        jobs = await self._claims.claim(self._window.room)
        self._runtime.held.add(jobs, self._window)
        return jobs

    async def _pause(self, seconds: float) -> None:
        seconds = min(seconds, self._window.next_lapse)
        if self._window.room:
            await self._claims.news(self._stream, seconds)
        elif await self._stream.pause(min(seconds, self._look_after)):
            self._look_after = FIRST_LOOK
        else:
            self._look_after = min(LAST_LOOK, self._look_after * 2)
            await self._look_for_lost()
        if not self._window.next_lapse:
            await self._look_for_lost()

    async def _look_for_lost(self) -> None:
        """Drop jobs that were settled elsewhere, or whose leases have lapsed, from the window."""
        held = dict(self._window.jobs)
        found, now = await self._runtime.call(self._look_up, list(held))
        for (queue, id), job in held.items():
            left = _lease_left(job, found.get((queue, id)), now)
            if left > 0:
                self._window.extend((queue, id), left)
            else:
                self._runtime.held.settled(queue, id, job.token)

    def _look_up(self, places: list[Place]) -> tuple[dict[Place, Record], float]:
        store = self._runtime.store
        found: dict[Place, Record] = {}
        for queue in {queue for queue, _ in places}:
            ids = [id for key, id in places if key == queue]
            jobs = find_each(store, queue, ids)
            found |= {(queue, job.id): job.without_data() for job in jobs if job is not None}
        return found, store.now()

    def _end(self) -> None:
        self._runtime.streams.close(self._stream)
        if jobs := [Handed(queue, job) for (queue, _), job in self._window.jobs.items()]:
            # Not awaited here: a client that has left cancels what its request awaits.
            self._runtime.soon(self._take_back(jobs))

    async def _take_back(self, jobs: list[Handed]) -> None:
        if self._stream.ended:
            # The service ended the stream, not the client: no job can be to blame.
            await self._claims.release(jobs)
        else:
            await self._claims.take_back(jobs)
        for handed in jobs:
            self._runtime.held.settled(handed.queue, handed.job.id, handed.job.token)


def _lease_left(held: Record, found: Record | None, now: float) -> float:
    """Seconds that a job is still held under this lease."""
    if found is None or found.state is not State.PROCESSING or found.token != held.token:
        return 0.0
    return (found.deadline or 0.0) - now
