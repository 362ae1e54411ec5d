"""`ackline` with kill points: python -m tests.service.kill_points POINT serve …"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from ackline.aio.producer import AsyncProducer
from ackline.cli import main
from ackline.core.job import State
from ackline.queue import Queued
from ackline.service.delivery.claims import Claimer
from ackline.service.webhooks import worker

CLAIMED, ANSWERED_EARLY, SHORT_LEASE = "claimed", "answered-early", "hasty"


def kill_once_claimed() -> None:
    """The jobs are leased, but the response is never sent."""
    claim = Claimer.claim

    async def kill_after_claim(self: Claimer, *arguments: Any, **options: Any) -> Any:
        jobs = await claim(self, *arguments, **options)
        if jobs:
            os.kill(os.getpid(), signal.SIGKILL)
        return jobs

    Claimer.claim = kill_after_claim  # type: ignore[method-assign]


def answer_before_it_is_stored() -> None:
    """The control: an incorrect service."""
    enqueue = AsyncProducer.enqueue
    later = set()

    async def answer_early(self: Any, payload: Any, **options: Any) -> Queued:
        async def enqueue_later() -> None:
            await asyncio.sleep(60)  # it is killed before, however busy the machine is
            await enqueue(self, payload, **options)

        task = asyncio.create_task(enqueue_later())
        later.add(task)
        return Queued(options["id"], State.QUEUED)

    AsyncProducer.enqueue = answer_early  # type: ignore[method-assign]


def shorten_delivery_leases() -> None:
    """Short intervals, so that recovery after a kill is quick."""
    worker.LEASE = 1.0


POINTS = {
    CLAIMED: kill_once_claimed,
    ANSWERED_EARLY: answer_before_it_is_stored,
    SHORT_LEASE: shorten_delivery_leases,
}

if __name__ == "__main__":
    POINTS[sys.argv.pop(1)]()
    main()
