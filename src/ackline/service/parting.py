"""What becomes of the jobs of a consumer that has left without settling them.

It may have left cleanly, or one of its jobs may have crashed it: the connection looks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline import lifecycle
from ackline.events import Act
from ackline.job import Record, State
from ackline.queue import Queue
from ackline.queue.recovery import Way
from ackline.stores.base import find_each

MOST_GIVEN_BACK = 3
"""How often a job is given back that its consumer may not have begun. Then it is a suspect too:
a consumer that works on many jobs at once can be crashed by any of them."""

REASON = "its consumer left"


def take_back(queue: Queue[Any, Any], sent: Sequence[Record], first: str | None) -> None:
    """Take back what a consumer was sent; `first` is the job that it had the longest. This blocks.

    A consumer that was at work was at that job, so it costs the job an attempt, as any crash does:
    a poison job must reach the DLQ. The others return to their places, with all their attempts.
    """
    held = _still_held(queue, sent)
    suspects = {job.id for job in held if job.id == first or _given_back(job) >= MOST_GIVEN_BACK}
    spared = [job for job in held if job.id not in suspects]
    queue.apply([lifecycle.release(job, queue.policies.of(job), REASON) for job in spared])
    queue.expire([job for job in held if job.id in suspects], REASON, Way.MONITOR)


def _still_held(queue: Queue[Any, Any], sent: Sequence[Record]) -> list[Record]:
    """The jobs still leased, as they are now: an extended lease has another deadline."""
    found = find_each(queue.store, queue.key, [job.id for job in sent])
    return [
        now.without_data()
        for job, now in zip(sent, found, strict=True)
        if now is not None and now.state is State.PROCESSING and now.token == job.token
    ]


def _given_back(job: Record) -> int:
    return sum(ended.act == Act.RELEASE for ended in job.history)
