"""What becomes of the jobs of a consumer that has left without settling them.

It may have left cleanly, or one of its jobs may have crashed it: the connection looks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.core import lifecycle
from ackline.core.events import Act
from ackline.core.job import Record, State
from ackline.queue import Queue
from ackline.queue.metadata.recovery_counts import RecoveredBy
from ackline.stores.contract import find_each_job

MAX_FREE_RELEASES = 3
"""How often a job is given back that its consumer may not have begun. Then it is a suspect too:
a consumer that works on many jobs at once can be crashed by any of them."""

DISCONNECTED = "its consumer left"


def recover_jobs(queue: Queue[Any, Any], sent: Sequence[Record], first: str | None) -> None:
    """Take back what a consumer was sent; `first` is the job that it had the longest. This blocks.

    A consumer that was at work was at that job, so it costs the job an attempt, as any crash does:
    a poison job must reach the DLQ. The others return to their places, with all their attempts.
    """
    held = _still_leased(queue, sent)
    suspects = {
        job.id for job in held if job.id == first or _release_count(job) >= MAX_FREE_RELEASES
    }
    spared = [job for job in held if job.id not in suspects]
    queue.apply([lifecycle.release(job, queue.policies.of(job), DISCONNECTED) for job in spared])
    queue.expire([job for job in held if job.id in suspects], DISCONNECTED, RecoveredBy.MONITOR)


def _still_leased(queue: Queue[Any, Any], sent: Sequence[Record]) -> list[Record]:
    """The jobs still leased, as they are now: an extended lease has another deadline."""
    found = find_each_job(queue.store, queue.key, [job.id for job in sent])
    return [
        now.without_data()
        for job, now in zip(sent, found, strict=True)
        if now is not None and now.state is State.PROCESSING and now.token == job.token
    ]


def _release_count(job: Record) -> int:
    return sum(ended.act == Act.RELEASE for ended in job.history)
