"""A duration is a number of seconds or a timedelta, wherever one is taken."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import ackline
from ackline import InvalidOption, Policy, Queue, QueueSettings, Worker, aio
from ackline.core.retry import backoff_from
from ackline.testing import ManualClock, memory_queues

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> Any:
    with memory_queues(clock) as queues:
        yield queues["email"]


def run_at(queue: Queue[Any, Any], clock: ManualClock, id: str = "a") -> float:
    """In how many seconds a job is due."""
    job = queue.status(id)
    assert job is not None
    assert job.record.run_at is not None
    return job.record.run_at - clock.now()


def test_options_of_a_job(queue: Queue[Any, Any], clock: ManualClock) -> None:
    queue.enqueue(
        1, id="a", delay=MINUTE, lease=MINUTE, timeout=2 * MINUTE, result_ttl=3 * MINUTE,
        backoff=[SECOND, MINUTE],
    )  # fmt: skip
    job = queue.status("a")
    assert job is not None
    options = job.record.options
    assert (options.lease, options.timeout, options.result_ttl) == (60, 120, 180)
    assert options.backoff == ackline.schedule([1, 60])
    assert run_at(queue, clock) == 60
    with pytest.raises(InvalidOption, match="delay"):
        queue.enqueue(1, delay=-SECOND)


def test_claiming_and_settling(queue: Queue[Any, Any], clock: ManualClock) -> None:
    queue.enqueue(1, id="a")
    [job] = queue.claim(lease=MINUTE, wait=timedelta(0))
    assert job.record.deadline == clock.now() + 60
    job.extend(2 * MINUTE)
    current = queue.status("a")
    assert current is not None
    assert current.record.deadline == clock.now() + 120
    queue.fail(job, "closed", delay=MINUTE)
    assert run_at(queue, clock) == 60
    clock.advance(MINUTE)
    [job] = queue.claim()
    queue.snooze(job, 2 * MINUTE)
    assert run_at(queue, clock) == 120


def test_operating(queue: Queue[Any, Any], clock: ManualClock) -> None:
    queue.enqueue(1, id="a")
    queue.edit("a", delay=MINUTE)
    assert run_at(queue, clock) == 60
    clock.advance(MINUTE)
    queue.bury(queue.claim()[0], "never")
    queue.keep_result("a", MINUTE)
    job = queue.status("a")
    assert job is not None
    assert job.record.expires_at == clock.now() + 60
    queue.redrive("a", delay=MINUTE)
    assert run_at(queue, clock) == 60
    assert list(queue.events(follow_for=timedelta(0)))


def test_a_wait_that_ends(queue: Queue[Any, Any]) -> None:
    queue.enqueue(1, id="a")
    moment = timedelta(milliseconds=10)
    with pytest.raises(ackline.Timeout):
        queue.result("a", moment)
    with pytest.raises(ackline.Timeout):
        queue.enqueue_and_wait(1, id="a", timeout=moment)


def test_policies_and_settings(queue: Queue[Any, Any]) -> None:
    assert Policy(lease=MINUTE, keep_failed=MINUTE) == Policy(lease=60.0, keep_failed=60.0)
    assert QueueSettings(stuck_after=MINUTE) == QueueSettings(stuck_after=60.0)
    changed = queue.configure(
        sweep_every=SECOND, keep_journal=MINUTE, policy=Policy(timeout=MINUTE)
    )
    assert (changed.sweep_every, changed.keep_journal, changed.policy.timeout) == (1, 60, 60)
    assert queue.settings() == changed
    queue.handler("mail", timeout=MINUTE, backoff=SECOND)(lambda job: None)
    assert queue.handlers["mail"].policy == Policy(timeout=60.0, backoff=ackline.fixed(1))
    assert Worker(queue, grace=MINUTE).grace == 60


def test_backoffs() -> None:
    assert ackline.fixed(MINUTE) == ackline.fixed(60)
    assert ackline.linear(SECOND, cap=MINUTE) == ackline.linear(1, cap=60)
    assert ackline.exponential(SECOND, cap=MINUTE) == ackline.exponential(1, cap=60)
    assert backoff_from([SECOND, 5, MINUTE]) == ackline.schedule([1, 5, 60])
    assert backoff_from(MINUTE) == ackline.fixed(60)


def test_times_to_filter_by_may_be_datetimes(queue: Queue[Any, Any], clock: ManualClock) -> None:
    queue.enqueue(1)
    created = datetime.fromtimestamp(clock.now(), UTC)
    assert len(queue.jobs(created_after=created - SECOND)) == 1
    assert len(queue.jobs(created_before=created - SECOND)) == 0
    with pytest.raises(InvalidOption, match="timezone-aware"):
        queue.jobs(created_after=created.replace(tzinfo=None))


def test_asyncio(queue: Queue[Any, Any], clock: ManualClock) -> None:
    asyncio.run(use_durations(queue, clock))


async def use_durations(queue: Queue[Any, Any], clock: ManualClock) -> None:
    queues = aio.AsyncQueues(ackline.Queues(queue.store))
    work = queues["email"]
    await work.enqueue(1, id="a", delay=SECOND)
    clock.advance(SECOND)
    [job] = await work.claim(lease=MINUTE, wait=MINUTE)
    await work.extend(job, 2 * MINUTE)
    await work.fail(job, "closed", delay=SECOND)
    clock.advance(SECOND)
    [job] = await work.claim()
    await work.snooze(job, MINUTE)
    assert run_at(queue, clock) == 60
    await work.edit("a", delay=SECOND)
    with pytest.raises(ackline.Timeout):
        await work.result("a", timedelta(milliseconds=10))
    await queues.close()
