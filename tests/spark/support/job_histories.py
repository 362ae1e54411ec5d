"""Journals made by the real lifecycle, and ways to spoil them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from ackline.core.events import Event
from ackline.core.job import State
from ackline.queues import Queues


def live_through(queues: Queues, clock: Any, jobs: int, seed: int = 1) -> None:
    """Let some jobs live: they complete, fail, lapse, snooze, are cancelled, redriven, moved."""
    choose = random.Random(seed)
    queue, other = queues["email"], queues["other"]
    queue.enqueue_many(range(jobs), max_attempts=3, backoff=[1.0, 1.0])
    queue.enqueue_many(range(jobs // 10), delay=5)
    ends: list[Callable[[Any], None]] = [
        queue.complete,
        queue.complete,
        lambda job: queue.fail(job, "no"),
        lambda job: queue.snooze(job, 2),
        queue.release,
        lambda job: None,
    ]
    for _ in range(12):
        for job in queue.claim(jobs // 2, lease=30):
            choose.choice(ends)(job)
        clock.advance(31)
        operate(queue, other.name)
    for job in other.claim(100):
        other.complete(job)
    queue.enqueue_many(range(5))
    queue.bury(queue.claim(1)[0], "no")


def operate(queue: Any, other: str) -> None:
    """What people do meanwhile."""
    for job in queue.jobs(states=[State.FAILED], limit=1).jobs:
        queue.redrive(job.id)
    for job in queue.jobs(states=[State.QUEUED], limit=2).jobs:
        queue.move(job.id, other)
    for job in queue.jobs(states=[State.QUEUED], limit=1).jobs:
        queue.cancel(job.id)


def all_events(queues: Queues) -> list[Event]:
    return [event for name in queues for event in queues[name].events()]


def change(event: Event, **values: Any) -> Event:
    return msgspec.structs.replace(event, **values)
