"""Claiming and settling jobs, and registering handlers, from asyncio."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from ackline.aio.base import AsyncQueueBase
from ackline.aio.listener import AsyncListener
from ackline.core import lifecycle
from ackline.core.cron import CatchUp, Every, Schedule
from ackline.core.limits import Seconds, optional_seconds, some_seconds
from ackline.core.retry import BackoffLike
from ackline.queue import Job, Queue
from ackline.queue.base import P, R
from ackline.queue.consume import poll_interval
from ackline.queue.handlers import DEFAULT_KIND
from ackline.queue.job import record_of
from ackline.queue.settle import failure_from
from ackline.stores.contract import ClaimRequest, ClaimResult

logger = logging.getLogger("ackline")

F = TypeVar("F", bound=Callable[..., Any])


class CancellableClaim:
    """A claim in a thread for a caller that may be cancelled meanwhile."""

    def __init__(self, queue: Queue[Any, Any], make_request: Callable[[], ClaimRequest]) -> None:
        self._queue = queue
        self._make_request = make_request
        self._lock = threading.Lock()
        self._claimed: ClaimResult | None = None
        self._cancelled = False

    def claim(self) -> ClaimResult:
        """Claim, unless the caller was cancelled."""
        with self._lock:
            if self._cancelled:
                raise asyncio.CancelledError
            self._claimed = self._queue.claim_records(self._make_request())
            return self._claimed

    def cancel(self) -> None:
        """Release the jobs that a cancelled caller would have got."""
        with self._lock:
            self._cancelled = True
            jobs = self._claimed.jobs if self._claimed is not None else []
        if not jobs:
            return
        try:
            policy = self._queue.policies.of
            self._queue.apply(
                [lifecycle.release(job, policy(job), "the claim was cancelled") for job in jobs]
            )
        except Exception:
            logger.exception(
                "%d jobs of a cancelled claim on %s stay leased until their leases expire",
                len(jobs),
                self._queue.key,
            )


class AsyncConsumer(AsyncQueueBase[P, R]):
    """The consuming side of a queue."""

    @overload
    def handler(self, kind: F, /) -> F: ...

    @overload
    def handler(
        self,
        kind: str = DEFAULT_KIND,
        /,
        *,
        max_attempts: int | None = None,
        backoff: BackoffLike | None = None,
        lease: Seconds | None = None,
        timeout: Seconds | None = None,
        result_ttl: Seconds | None = None,
    ) -> Callable[[F], F]: ...

    def handler(self, kind: Any = DEFAULT_KIND, /, **options: Any) -> Any:
        """Register the function that runs a kind of job; it may be async."""
        return self.sync.handler(kind, **options)

    def every(
        self,
        when: Every,
        payload: Any = None,
        *,
        name: str | None = None,
        kind: str = DEFAULT_KIND,
        tz: str = "UTC",
        catch_up: CatchUp = "one",
        **options: Any,
    ) -> Schedule:
        """Enqueue a job at each tick of a schedule, from any running worker."""
        return self.sync.every(
            when,
            payload,
            name=name,
            kind=kind,
            tz=tz,
            catch_up=catch_up,
            **options,
        )

    async def claim(
        self,
        limit: int = 1,
        *,
        lease: Seconds | None = None,
        wait: Seconds = 0.0,
        kinds: Iterable[str] | None = None,
        worker: str | None = None,
        connection: object | None = None,
    ) -> list[Job[P]]:
        """Lease up to `limit` jobs, waiting up to `wait` seconds for the first.

        Jobs that a cancelled caller would have got are released.
        """
        seconds = some_seconds("wait", wait)
        request = await self._call(self.sync.claim_request, limit, lease, kinds, worker)
        claimed = await self._claim_once(request, connection)
        if claimed.jobs or seconds <= 0:
            return [self.sync.wrap(record) for record in claimed.jobs]
        until = time.monotonic() + seconds
        store, key = self.sync.store, self.sync.key
        async with AsyncListener(self._threads, store, key, "ready", request.kinds) as listener:
            while True:
                claimed = await self._claim_once(request, connection)
                left = until - time.monotonic()
                if claimed.jobs or left <= 0:
                    return [self.sync.wrap(record) for record in claimed.jobs]
                await listener.wait(min(left, poll_interval(claimed)))

    async def _claim_once(self, request: ClaimRequest, connection: object | None) -> ClaimResult:
        if connection is not None:
            return await self._in_transaction(
                connection,
                lambda joined: self.sync.claim_from(joined, request),
            )
        claim = CancellableClaim(self.sync, lambda: request)
        try:
            return await self._call(claim.claim)
        except asyncio.CancelledError:
            self._threads.run_soon(claim.cancel)
            raise

    # --- settling; with a connection, in the transaction that is open on it ---

    async def complete(
        self, job: Job[P], result: R | None = None, *, connection: object | None = None
    ) -> None:
        """Complete a job. Raises `LeaseLost`, and changes nothing, if its lease is lost."""
        record, data = record_of(job), self.sync.serdes.encode_result(result)
        await self._settle(
            job, lambda: lifecycle.complete(record, data, self.sync.policies.of(record)), connection
        )

    async def fail(
        self,
        job: Job[P],
        error: BaseException | str,
        *,
        delay: Seconds | None = None,
        connection: object | None = None,
    ) -> None:
        """Fail the attempt: the job is retried after its backoff, or after `delay` seconds."""
        seconds = optional_seconds("delay", delay)
        record = record_of(job)
        failure = failure_from(record, error)
        await self._settle(
            job,
            lambda: lifecycle.fail(
                record, failure, self.sync.policies.of(record), self.sync.random, seconds
            ),
            connection,
        )

    async def bury(
        self, job: Job[P], error: BaseException | str, *, connection: object | None = None
    ) -> None:
        """Send a job that can never succeed to the DLQ, whatever attempts remain."""
        record = record_of(job)
        failure = failure_from(record, error)
        await self._settle(
            job, lambda: lifecycle.bury(record, failure, self.sync.policies.of(record)), connection
        )

    async def snooze(
        self, job: Job[P], delay: Seconds, *, connection: object | None = None
    ) -> None:
        """Run a job again after `delay` seconds; it costs no attempt."""
        seconds = some_seconds("delay", delay)
        record = record_of(job)
        await self._settle(
            job,
            lambda: lifecycle.snooze(record, seconds, self.sync.policies.of(record)),
            connection,
        )

    async def release(self, job: Job[P], *, connection: object | None = None) -> None:
        """Return a job to its old position in the queue; it costs no attempt."""
        record = record_of(job)
        await self._settle(
            job, lambda: lifecycle.release(record, self.sync.policies.of(record)), connection
        )

    async def extend(self, job: Job[Any], seconds: Seconds) -> None:
        """Extend the lease to `seconds` from now."""
        lease = some_seconds("seconds", seconds, above_zero=True)
        record = record_of(job)
        await self._settle(job, lambda: lifecycle.extend(record, lease))

    async def report(self, job: Job[Any], progress: Any) -> None:
        """Store the progress of a job. Raises `LeaseLost` if the lease is not yours."""
        record, data = record_of(job), self.sync.serdes.encode_progress(progress)
        await self._settle(job, lambda: lifecycle.progress(record, data))
