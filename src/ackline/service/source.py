"""One of the queues that a client claims from."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ackline import lifecycle
from ackline.aio.consumer import Handover
from ackline.job import Record
from ackline.lifecycle import Transition
from ackline.queue import Queue
from ackline.service import parting
from ackline.service.runtime import Runtime
from ackline.service.wakeups import Waiter, Wakeup
from ackline.stores.base import Claimed, ClaimRequest
from ackline.worker.shares import Share

logger = logging.getLogger("ackline.service")


SOONEST = 0.001

LOOK_EVERY = 30.0
"""Seconds after which a queue may have something although there was no news, because news can be
lost. A client that waits looks sooner, see `wakeups`; this is for one that is busy with others."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a client wants, for how long, and under which name it holds them."""

    lease: float | None = None
    kinds: frozenset[str] | None = None
    worker: str | None = None


class Source:
    """A queue, its share of what the client takes, and whether a claim may bring something."""

    def __init__(self, runtime: Runtime, queue: Queue[Any, Any], wish: Wish, share: Share) -> None:
        self._runtime = runtime
        self._queue = queue
        self._wish = wish
        self.key = queue.key
        self.share = share
        self._wakeup: Wakeup | None = None
        self._waiter: Waiter | None = None
        self._seen = 0
        """The version of the wakeup before the last claim."""
        self._more = True
        """Whether there may be jobs without further news."""
        self._woken = False
        """Whether to wake another, unless this one looks: it was woken, or its claim was full."""
        self._look_at = math.inf

    @property
    def promising(self) -> bool:
        """Whether a claim may bring jobs: after one that brought too few, only upon news."""
        told = self._wakeup is not None and self._wakeup.version != self._seen
        return self._more or told or time.monotonic() >= self._look_at

    def look(self) -> None:
        """There may be something to claim again."""
        self._more = True

    async def claim(self, limit: int, max_bytes: int | None) -> list[Record]:
        """Claim what is there now; if the client leaves meanwhile, no job is lost."""
        self.share.take(limit)
        if self._wakeup is not None:
            self._seen = self._wakeup.version
        self._more = False
        claimed: Claimed | None = None
        try:
            claimed = await self._claim(limit, max_bytes)
        finally:
            self.share.give_back(limit - (len(claimed.jobs) if claimed is not None else 0))
            if claimed is None:
                self.look()  # nothing is known about the queue
        self._woken = len(claimed.jobs) == limit or claimed.more
        if self._woken:
            self.look()
        return claimed.jobs

    async def _claim(self, limit: int, max_bytes: int | None) -> Claimed:
        handover = Handover(self._queue, lambda: self._request(limit, max_bytes))
        try:
            claimed = await self._runtime.call(handover.claim)
        except asyncio.CancelledError:
            self._runtime.threads.soon(handover.abandon)
            raise
        self._runtime.metrics.work.claimed(self.key, claimed)
        if self._wakeup is not None and len(claimed.jobs) < limit and not claimed.more:
            self._expect(claimed)
        return claimed

    def _request(self, limit: int, max_bytes: int | None) -> ClaimRequest:
        """This blocks: it may have to read the queue's settings."""
        wish = self._wish
        request = self._queue.claim_request(limit, wish.lease, wish.kinds, wish.worker)
        return msgspec.structs.replace(request, max_bytes=max_bytes)

    def _expect(self, claimed: Claimed) -> None:
        """Look again when the next job becomes due, or the next lease lapses."""
        quiet_for = LOOK_EVERY
        if claimed.next_at is not None:
            quiet_for = min(quiet_for, max(SOONEST, claimed.next_at - claimed.now))
        self._look_at = time.monotonic() + quiet_for
        if quiet_for < LOOK_EVERY and self._wakeup is not None:
            self._wakeup.expect(quiet_for)

    async def release(self, jobs: Sequence[Record]) -> None:
        """Give back jobs that a client was not sent, or will not process."""
        with self._left_to_lapse(jobs):
            transitions = await self._runtime.call(self._releases, jobs)
            verdicts = await self._runtime.call(self._queue.apply, transitions)
            self._runtime.metrics.work.settled(self.key, transitions, verdicts)

    def _releases(self, jobs: Sequence[Record]) -> list[Transition]:
        policy = self._queue.policies.of
        return [lifecycle.release(job, policy(job), parting.REASON) for job in jobs]

    async def take_back(self, jobs: Sequence[Record], first: str | None) -> None:
        """The client has left with jobs that it was sent; it had `first` the longest."""
        with self._left_to_lapse(jobs):
            await self._runtime.call(parting.take_back, self._queue, jobs, first)

    @contextmanager
    def _left_to_lapse(self, jobs: Sequence[Record]) -> Iterator[None]:
        try:
            yield
        except Exception:
            logger.exception(
                "could not release %d jobs of %s: they wait for their leases to lapse",
                len(jobs),
                self.key,
            )

    # --- its wakeup, when there may be something to claim ---

    def use(self, wakeup: Wakeup | None) -> None:
        """Be woken by this from now on; None ends it."""
        self._wakeup = wakeup
        self._look_at = math.inf
        if wakeup is not None:
            self._seen = wakeup.version

    def join(self, event: asyncio.Event) -> None:
        """Have the event set by the next news."""
        if self._wakeup is not None:
            self._waiter = self._wakeup.join(event, self._seen)

    def leave(self) -> None:
        """Stop waiting; if this one was woken, there is something to claim."""
        if self._waiter is not None and not self._waiter.wakeup.leave(self._waiter):
            self._more = self._woken = True
        self._waiter = None

    def pass_on(self) -> None:
        """Wake another client: there may be more than this one takes."""
        if self._wakeup is not None and self._woken:
            self._woken = False
            self._wakeup.wake_next()
