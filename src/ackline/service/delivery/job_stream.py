"""An endless stream of jobs for one client."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import StoreClosed, StoreError
from ackline.core.job import QueueKey, Record, State
from ackline.service.delivery.claims import Claimer
from ackline.service.delivery.in_flight import InFlightJob, JobKey, PrefetchWindow
from ackline.service.http.sse import EMPTY_CHUNK, LARGE_CHUNK, PING, StreamSignal
from ackline.stores.contract import find_each_job

logger = logging.getLogger("ackline.service")

RETRIES = (0.1, 2.0)
"""Seconds between tries to claim from a store that fails: the first, and the longest."""

FIRST_CHECK_DELAY, MAX_CHECK_DELAY = 0.01, 1.0
"""Seconds after which a full window is looked at, doubled each time: another process of the
service may have settled its jobs. A client that worked for long can wait a little longer."""

Encode = Callable[[InFlightJob], bytes]


class JobStream:
    """One client's stream of jobs: never more than its window, and all given back at the end."""

    def __init__(
        self, claims: Claimer, prefetch: int, write: Encode, until: float | None = None
    ) -> None:
        self._claims = claims
        self._until = until
        self._runtime = claims.runtime
        self._write = write
        self._stream = StreamSignal()
        self._window = PrefetchWindow(prefetch, self._on_capacity)
        self._check_after = FIRST_CHECK_DELAY
        self._retries = ExponentialDelay(*RETRIES)
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
                        written = await self._encoded(jobs) or PING
                        del jobs  # not held while the client reads, or until there are more
                        large = len(written) > LARGE_CHUNK
                        yield written
                        del written
                        if large:
                            yield EMPTY_CHUNK
        except Exception:
            self._stream.end()  # by the service: the client has not left
            raise
        finally:
            self._end()

    async def _claim_or_pause(self, seconds: float) -> list[InFlightJob]:
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
            await self._stream.wait(self._retries.next())
            return []
        self._failing = False
        self._retries.reset()
        return jobs

    async def _encoded(self, jobs: list[InFlightJob]) -> bytes:
        size = sum(len(handed.job.payload) for handed in jobs)
        return await self._runtime.run_if_large(size, lambda: b"".join(map(self._write, jobs)))

    def _on_capacity(self, queue: QueueKey) -> None:
        # A job that ended may have made way for others of its group.
        self._claims.mark_promising(queue)
        self._stream.wake.set()

    async def _claim(self) -> list[InFlightJob]:
        if not self._window.capacity:
            return []
        jobs = await self._claims.claim(self._window.capacity)
        self._runtime.in_flight.add(jobs, self._window)
        return jobs

    async def _pause(self, seconds: float) -> None:
        seconds = min(seconds, self._window.next_expiry)
        if self._window.capacity:
            await self._claims.wait_for_notification(self._stream, seconds)
        elif await self._stream.wait(min(seconds, self._check_after)):
            self._check_after = FIRST_CHECK_DELAY
        else:
            self._check_after = min(MAX_CHECK_DELAY, self._check_after * 2)
            await self._drop_lost_jobs()
        if not self._window.next_expiry:
            await self._drop_lost_jobs()

    async def _drop_lost_jobs(self) -> None:
        """Drop jobs that were settled elsewhere, or whose leases have lapsed, from the window."""
        held = dict(self._window.jobs)
        found, now = await self._runtime.call(self._read_jobs, list(held))
        for (queue, id), job in held.items():
            left = _remaining_lease(job, found.get((queue, id)), now)
            if left > 0:
                self._window.extend((queue, id), left)
            else:
                self._runtime.in_flight.settled(queue, id, job.token)

    def _read_jobs(self, places: list[JobKey]) -> tuple[dict[JobKey, Record], float]:
        store = self._runtime.store
        found: dict[JobKey, Record] = {}
        for queue in {queue for queue, _ in places}:
            ids = [id for key, id in places if key == queue]
            jobs = find_each_job(store, queue, ids)
            found |= {(queue, job.id): job.without_data() for job in jobs if job is not None}
        return found, store.now()

    def _end(self) -> None:
        self._runtime.streams.close(self._stream)
        if jobs := [InFlightJob(queue, job) for (queue, _), job in self._window.jobs.items()]:
            # Not awaited here: a client that has left cancels what its request awaits.
            self._runtime.start_task(self._recover(jobs))

    async def _recover(self, jobs: list[InFlightJob]) -> None:
        if self._stream.ended:
            # The service ended the stream, not the client: no job can be to blame.
            await self._claims.release(jobs)
        else:
            await self._claims.recover(jobs)
        for handed in jobs:
            self._runtime.in_flight.settled(handed.queue, handed.job.id, handed.job.token)


def _remaining_lease(held: Record, found: Record | None, now: float) -> float:
    """Seconds that a job is still held under this lease."""
    if found is None or found.state is not State.PROCESSING or found.token != held.token:
        return 0.0
    return (found.deadline or 0.0) - now
