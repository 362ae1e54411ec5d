"""Claims of one client, from one queue or from several by their weights."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from ackline.aio.consumer import CancellableClaim
from ackline.core import lifecycle
from ackline.core.job import QueueKey, Record
from ackline.core.lifecycle import Transition
from ackline.queue import Queue
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.delivery import disconnect
from ackline.service.delivery.fair_share import Weights
from ackline.service.delivery.in_flight import InFlightJob
from ackline.service.http.sse import StreamSignal
from ackline.service.wakeups.wakeup import Waiter, Wakeup
from ackline.stores.contract import MAX_ANSWER_BYTES, ClaimRequest, ClaimResult
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.worker.fair_share import QueueShare

if TYPE_CHECKING:
    from ackline.service.runtime import Runtime

logger = logging.getLogger("ackline.service")

MIN_WAIT = 0.001

POLL_EVERY = 30.0
"""Seconds after which a queue is polled without a notification, which can be lost. This is for
clients that are busy with other queues; clients that wait poll sooner, see `wakeups`."""


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a client claims, for how long, and with which worker id."""

    lease: float | None = None
    kinds: frozenset[str] | None = None
    worker: str | None = None


class ClaimSource:
    """One of a client's queues: its fair share, and whether a claim may bring jobs."""

    def __init__(
        self, runtime: Runtime, queue: Queue[Any, Any], options: ClaimOptions, share: QueueShare
    ) -> None:
        self._runtime = runtime
        self._queue = queue
        self._options = options
        self.key = queue.key
        self.share = share
        self._wakeup: Wakeup | None = None
        self._waiter: Waiter | None = None
        self._seen_version = 0
        """The version of the wakeup before the last claim."""
        self._has_more = True
        """Whether there may be jobs without a further notification."""
        self._woken = False
        """Whether to wake another client: this one was woken, or got all that it asked for."""
        self._poll_at = math.inf

    @property
    def worth_claiming(self) -> bool:
        """Whether a claim may bring jobs; after one that brought too few, once notified."""
        notified = self._wakeup is not None and self._wakeup.version != self._seen_version
        return self._has_more or notified or time.monotonic() >= self._poll_at

    def mark_as_worth_claiming(self) -> None:
        """There may be something to claim again."""
        self._has_more = True

    async def claim(self, limit: int, max_bytes: int | None) -> list[Record]:
        """Claim what is there now; if the client disconnects meanwhile, no job is lost."""
        self.share.try_take(limit)
        if self._wakeup is not None:
            self._seen_version = self._wakeup.version
        self._has_more = False
        claimed: ClaimResult | None = None
        try:
            claimed = await self._claim(limit, max_bytes)
        finally:
            self.share.return_unused(limit - (len(claimed.jobs) if claimed is not None else 0))
            if claimed is None:
                self.mark_as_worth_claiming()  # the claim failed: nothing is known about the queue
        self._woken = len(claimed.jobs) == limit or claimed.may_have_more
        if self._woken:
            self.mark_as_worth_claiming()
        return claimed.jobs

    async def _claim(self, limit: int, max_bytes: int | None) -> ClaimResult:
        claim = CancellableClaim(self._queue, lambda: self._request(limit, max_bytes))
        try:
            claimed = await self._runtime.call(claim.claim)
        except asyncio.CancelledError:
            self._runtime.threads.run_soon(claim.cancel)
            raise
        self._runtime.metrics.job_timings.claimed(self.key, claimed)
        if self._wakeup is not None and len(claimed.jobs) < limit and not claimed.may_have_more:
            self._schedule_poll(claimed)
        return claimed

    def _request(self, limit: int, max_bytes: int | None) -> ClaimRequest:
        """Blocks: it may have to read the queue's settings."""
        options = self._options
        request = self._queue.claim_request(limit, options.lease, options.kinds, options.worker)
        return msgspec.structs.replace(request, max_bytes=max_bytes)

    def _schedule_poll(self, claimed: ClaimResult) -> None:
        """Poll when the next job becomes due, or the next lease expires."""
        wait = POLL_EVERY
        if claimed.next_at is not None:
            wait = min(wait, max(MIN_WAIT, claimed.next_at - claimed.now))
        self._poll_at = time.monotonic() + wait
        if wait < POLL_EVERY and self._wakeup is not None:
            self._wakeup.notify_after(wait)

    async def release(self, jobs: Sequence[Record]) -> None:
        """Release jobs that a client was not sent, or will not process."""
        with self._log_if_not_released(jobs):
            transitions = await self._runtime.call(self._releases, jobs)
            verdicts = await self._runtime.call(self._queue.apply, transitions)
            self._runtime.metrics.job_timings.settled(self.key, transitions, verdicts)

    def _releases(self, jobs: Sequence[Record]) -> list[Transition]:
        policy = self._queue.policies.of
        return [lifecycle.release(job, policy(job), disconnect.DISCONNECTED) for job in jobs]

    async def recover(self, jobs: Sequence[Record], first: str | None) -> None:
        """Recover jobs of a client that disconnected; `first` was sent to it first."""
        with self._log_if_not_released(jobs):
            await self._runtime.call(disconnect.recover_jobs, self._queue, jobs, first)

    @contextmanager
    def _log_if_not_released(self, jobs: Sequence[Record]) -> Iterator[None]:
        try:
            yield
        except Exception:
            logger.exception(
                "could not release %d jobs of %s: they stay leased until their leases expire",
                len(jobs),
                self.key,
            )

    # --- its wakeup ---

    def set_wakeup(self, wakeup: Wakeup | None) -> None:
        """Use this wakeup from now on; None ends it."""
        self._wakeup = wakeup
        self._poll_at = math.inf
        if wakeup is not None:
            self._seen_version = wakeup.version

    def wait(self, event: asyncio.Event) -> None:
        """Set the event upon the next notification."""
        if self._wakeup is not None:
            self._waiter = self._wakeup.wait(event, self._seen_version)

    def cancel(self) -> None:
        """Stop waiting; if the client was woken, there is something to claim."""
        if self._waiter is not None and not self._waiter.wakeup.cancel(self._waiter):
            self._has_more = self._woken = True
        self._waiter = None

    def wake_other(self) -> None:
        """Wake another client: there may be more than this one claims."""
        if self._wakeup is not None and self._woken:
            self._woken = False
            self._wakeup.notify_next()


class Claimer:
    """Claims from the queue that got the least for its weight, among those that may have jobs."""

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

        A client that disconnects meanwhile gets nothing.
        """
        claimed, budget = list[InFlightJob](), ByteLimit(MAX_ANSWER_BYTES)
        candidates = [source for source in self._sources.values() if source.worth_claiming]
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
        """Recover unsettled jobs of a client that disconnected, in the order they were sent."""
        first = jobs[0]
        for key, records in _by_queue(jobs).items():
            await self._sources[key].recover(records, first.job.id if key == first.queue else None)

    # --- waiting ---

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Get notifications of the queues inside this block."""
        # A client that is busy with one queue must notice that another has jobs.
        several = len(self._sources) > 1
        of_queue = self.runtime.wakeups.of_queue
        with ExitStack() as wakeups:
            for key, source in self._sources.items():
                wakeup = of_queue(key, "ready", self._kinds, pinned=several)
                source.set_wakeup(wakeups.enter_context(wakeup))
                wakeups.callback(source.set_wakeup, None)
            wakeups.callback(self._wake_others)  # this client may have been woken before it left
            yield

    def mark_as_worth_claiming(self, queue: QueueKey) -> None:
        """A claim from this queue may bring something again."""
        self._sources[queue].mark_as_worth_claiming()

    async def wait_for_notification(self, stream: StreamSignal, seconds: float) -> None:
        """Wait until a queue may have jobs, the stream is woken, or the time is up."""
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
                remaining = until - time.monotonic()
                if jobs or remaining <= 0:
                    return jobs
                await self.wait_for_notification(stream, remaining)
        return []


def _by_queue(jobs: Iterable[InFlightJob]) -> dict[QueueKey, list[Record]]:
    by_queue: dict[QueueKey, list[Record]] = {}
    for job in jobs:
        by_queue.setdefault(job.queue, []).append(job.job)
    return by_queue
