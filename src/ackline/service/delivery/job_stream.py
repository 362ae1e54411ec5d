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
"""Seconds between claims from a store that fails: the first pause, and the longest."""

FIRST_CHECK_DELAY, MAX_CHECK_DELAY = 0.01, 1.0
"""Seconds after which the jobs of a full window are checked, doubled each time: another process
of the service may have settled them."""

Encode = Callable[[InFlightJob], bytes]


class JobStream:
    """One client's stream of jobs: never more than its window, all of them recovered at the end."""

    def __init__(
        self, claims: Claimer, prefetch: int, encode: Encode, until: float | None = None
    ) -> None:
        self._claims = claims
        self._until = until
        self._runtime = claims.runtime
        self._encode = encode
        self._stream = StreamSignal()
        self._window = PrefetchWindow(prefetch, self._on_capacity)
        self._check_after = FIRST_CHECK_DELAY
        self._retries = ExponentialDelay(*RETRIES)
        self._failing = False

    async def events(self) -> AsyncIterator[bytes]:
        """The chunks to send, until the client disconnects or the service stops.

        While the store fails, the stream stays open and retries.
        """
        last_sent_at = float("-inf")
        self._runtime.streams.open(self._until, self._stream)
        try:
            with self._claims.listening():
                while not self._stream.ended:
                    until_ping = last_sent_at + self._runtime.settings.ping_every - time.monotonic()
                    jobs = await self._claim_or_pause(until_ping)
                    if jobs or until_ping <= 0:
                        last_sent_at = time.monotonic()
                        chunk = await self._encoded(jobs) or PING
                        del jobs  # free their memory while the client reads
                        large = len(chunk) > LARGE_CHUNK
                        yield chunk
                        del chunk
                        if large:
                            yield EMPTY_CHUNK
        except Exception:
            self._stream.end()  # by the service: the client is still connected
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
                logger.warning("the store is unavailable, a job stream is retrying: %s", error)
            self._failing = True
            await self._stream.wait(self._retries.next())
            return []
        self._failing = False
        self._retries.reset()
        return jobs

    async def _encoded(self, jobs: list[InFlightJob]) -> bytes:
        size = sum(len(sent.job.payload) for sent in jobs)
        return await self._runtime.run_if_large(size, lambda: b"".join(map(self._encode, jobs)))

    def _on_capacity(self, queue: QueueKey) -> None:
        # A settled job may have made way for others of its group.
        self._claims.mark_as_worth_claiming(queue)
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
        """Drop jobs that were settled elsewhere, or whose leases have expired, from the window."""
        jobs = dict(self._window.jobs)
        found, now = await self._runtime.call(self._read_jobs, list(jobs))
        for (queue, id), job in jobs.items():
            remaining = _remaining_lease(job, found.get((queue, id)), now)
            if remaining > 0:
                self._window.extend((queue, id), remaining)
            else:
                self._runtime.in_flight.settled(queue, id, job.token)

    def _read_jobs(self, keys: list[JobKey]) -> tuple[dict[JobKey, Record], float]:
        store = self._runtime.store
        found: dict[JobKey, Record] = {}
        for queue in {queue for queue, _ in keys}:
            ids = [id for key, id in keys if key == queue]
            jobs = find_each_job(store, queue, ids)
            found |= {(queue, job.id): job.without_data() for job in jobs if job is not None}
        return found, store.now()

    def _end(self) -> None:
        self._runtime.streams.close(self._stream)
        if jobs := [InFlightJob(queue, job) for (queue, _), job in self._window.jobs.items()]:
            # Not awaited here: a disconnect cancels what the request awaits.
            self._runtime.start_task(self._recover(jobs))

    async def _recover(self, jobs: list[InFlightJob]) -> None:
        if self._stream.ended:
            # The service ended the stream: no job can have crashed the client.
            await self._claims.release(jobs)
        else:
            await self._claims.recover(jobs)
        for sent in jobs:
            self._runtime.in_flight.settled(sent.queue, sent.job.id, sent.job.token)


def _remaining_lease(job: Record, found: Record | None, now: float) -> float:
    """Seconds until this lease of a job expires."""
    if found is None or found.state is not State.PROCESSING or found.token != job.token:
        return 0.0
    return (found.deadline or 0.0) - now
