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

CLAIMED, ANSWERED_EARLY, HASTY = "claimed", "answered-early", "hasty"


def die_once_claimed() -> None:
    """The jobs are leased, but the response is never sent."""
    claim = Claimer.claim

    async def claim_and_die(self: Claimer, *arguments: Any, **options: Any) -> Any:
        jobs = await claim(self, *arguments, **options)
        if jobs:
            os.kill(os.getpid(), signal.SIGKILL)
        return jobs

    Claimer.claim = claim_and_die  # type: ignore[method-assign]


def answer_before_it_is_stored() -> None:
    """The control: an incorrect service."""
    enqueue = AsyncProducer.enqueue
    later = set()

    async def promise(self: Any, payload: Any, **options: Any) -> Queued:
        async def keep() -> None:
            await asyncio.sleep(60)  # it is killed before, however busy the machine is
            await enqueue(self, payload, **options)

        task = asyncio.create_task(keep())
        later.add(task)
        return Queued(options["id"], State.QUEUED)

    AsyncProducer.enqueue = promise  # type: ignore[method-assign]


def lease_deliveries_briefly() -> None:
    """Short intervals, so that recovery after a kill is quick."""
    worker.LEASE = 1.0


POINTS = {
    CLAIMED: die_once_claimed,
    ANSWERED_EARLY: answer_before_it_is_stored,
    HASTY: lease_deliveries_briefly,
}

if __name__ == "__main__":
    POINTS[sys.argv.pop(1)]()
    main()
