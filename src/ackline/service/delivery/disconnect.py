"""Recovers the jobs of a client that disconnected without settling them.

It may have left cleanly, or one of its jobs may have crashed it: both look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ackline.core import lifecycle
from ackline.core.events import Act, RecoveredBy
from ackline.core.job import Record, State
from ackline.queue import Queue
from ackline.stores.contract import find_each_job

MAX_FREE_RELEASES = 3
"""How often a job that its client may not have started is released. After that it loses an attempt,
too: a client that works on many jobs at the same time can be crashed by any of them."""

DISCONNECTED = "its client disconnected"


def recover_jobs(queue: Queue[Any, Any], sent: Sequence[Record], first: str | None) -> None:
    """Recover the jobs that a client was sent; `first` is the one it had the longest. Blocks.

    A client that was working was working on that job, so it costs the job an attempt, as any crash
    does: a poison job must reach the DLQ. The others are released, with all their attempts.
    """
    leased = _still_leased(queue, sent)
    to_expire = {
        job.id for job in leased if job.id == first or _release_count(job) >= MAX_FREE_RELEASES
    }
    to_release = [job for job in leased if job.id not in to_expire]
    queue.apply(
        [lifecycle.release(job, queue.policies.of(job), DISCONNECTED) for job in to_release]
    )
    queue.expire(
        [job for job in leased if job.id in to_expire], DISCONNECTED, RecoveredBy.DISCONNECT
    )


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
