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
from ackline.errors import StoreError
from ackline.job import Record
from ackline.lifecycle import Transition
from ackline.queue import Queue
from ackline.queue.consumer import time_to_next
from ackline.service import parting
from ackline.service.bells import Bell
from ackline.service.runtime import Runtime
from ackline.worker.shares import Share

logger = logging.getLogger("ackline.service")


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
        self._bell: Bell | None = None
        self._news = asyncio.Event()
        self._news.set()
        self._look_at = math.inf

    @property
    def promising(self) -> bool:
        """Whether a claim may bring jobs: after one that brought too few, only upon news."""
        return self._news.is_set() or time.monotonic() >= self._look_at

    def look(self) -> None:
        """There may be something to claim again."""
        self._news.set()

    async def claim(self, limit: int) -> list[Record]:
        """Claim what is there now; if the client leaves meanwhile, no job is lost."""
        self.share.take(limit)
        self._news.clear()
        jobs: list[Record] = []
        try:
            jobs = await self._claim(limit)
        except StoreError:
            self.look()  # nothing is known about the queue
            raise
        finally:
            self.share.give_back(limit - len(jobs))
        if len(jobs) == limit:
            self.look()
        return jobs

    async def _claim(self, limit: int) -> list[Record]:
        wish = self._wish
        request = await self._runtime.call(
            self._queue.claim_request, limit, wish.lease, wish.kinds, wish.worker
        )
        handover = Handover(self._queue, request)
        try:
            claimed = await self._runtime.call(handover.claim)
        except asyncio.CancelledError:
            self._runtime.threads.soon(handover.abandon)
            raise
        self._runtime.metrics.work.claimed(self.key, claimed)
        if self._bell is not None and len(claimed.jobs) < limit:
            quiet_for = time_to_next(claimed)
            self._look_at = time.monotonic() + quiet_for
            self._bell.expect(quiet_for)
        return claimed.jobs

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

    # --- its bell, which rings when there may be something to claim ---

    def hear(self, bell: Bell, always: bool) -> None:
        """Use this bell from now on; with `always`, hear its news even while nobody waits.

        A client that is busy with other queues needs that to learn that this one has jobs.
        """
        self._bell = bell
        if always:
            bell.watch(self._news)

    def hear_no_more(self) -> None:
        """Leave the bell."""
        if self._bell is not None:
            self._bell.unwatch(self._news)
            self._bell = None

    def join(self, waiter: asyncio.Event) -> None:
        """Have the waiter woken by the next news."""
        if self._bell is not None:
            self._bell.join(waiter)

    def leave(self, waiter: asyncio.Event) -> None:
        """Stop waiting; if the bell rang for it, there is something to claim."""
        if self._bell is not None and not self._bell.leave(waiter):
            self.look()

    def pass_on(self) -> None:
        """Wake another client: there may be more than this one takes."""
        if self._bell is not None and self.promising:
            self._bell.ring()
