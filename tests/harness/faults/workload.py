"""The jobs of a campaign, and their handlers."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import msgspec

from ackline.queue import Job, NewJob, Queue
from tests.harness.faults.checks.history import History, Phase, Step, StepType

SYNC, ASYNC = "sync", "async"
POISON_ATTEMPTS = 3


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """The duration of each attempt (the last one repeats), and how many attempts fail."""

    seconds: tuple[float, ...] = (0.0,)
    failures: int = 0

    def duration(self, attempt: int) -> float:
        """The duration of an attempt in seconds."""
        return self.seconds[min(attempt, len(self.seconds)) - 1]


class PlannedFailure(Exception):
    """The failure that the task requests."""


def random_job(random: random.Random, id: str) -> NewJob[Any]:
    """A job of 0 to 20 ms; one in eight fails at first, one in forty always."""
    seconds = (random.uniform(0.0, 0.02),)
    kind = random.choice((SYNC, SYNC, ASYNC))
    draw = random.random()
    if draw < 0.025:
        poison = msgspec.to_builtins(Task(seconds, failures=1000))
        return NewJob(poison, id=id, kind=kind, max_attempts=POISON_ATTEMPTS)
    task = Task(seconds, failures=random.choice((1, 2)) if draw < 0.15 else 0)
    return NewJob(msgspec.to_builtins(task), id=id, kind=kind, priority=random.randrange(10))


def add_handlers(queue: Queue[Any, Any], history: History) -> None:
    """Register a sync and an async handler, which record their deliveries in the history."""

    @queue.handler(SYNC)
    def work(job: Job[Task]) -> str:
        _begin(history, job)
        time.sleep(job.payload.duration(job.attempt))
        return _end(history, job)

    @queue.handler(ASYNC)
    async def work_async(job: Job[Task]) -> str:
        _begin(history, job)
        await asyncio.sleep(job.payload.duration(job.attempt))
        return _end(history, job)


def _begin(history: History, job: Job[Task]) -> None:
    history.write(_step(job, Phase.INVOKE))


def _end(history: History, job: Job[Task]) -> str:
    if job.attempt <= job.payload.failures:
        history.write(_step(job, Phase.FAIL))
        raise PlannedFailure(f"attempt {job.attempt} fails as planned")
    history.write(_step(job, Phase.OK))
    return f"done in attempt {job.attempt}"


def _step(job: Job[Task], phase: Phase) -> Step:
    return Step(
        type=StepType.DELIVERY,
        phase=phase,
        id=job.id,
        token=job.record.token,
        attempt=job.attempt,
        worker=job.record.worker,
    )
