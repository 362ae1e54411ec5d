"""Which jobs of a dead process had started, as its supervisor knows."""

from __future__ import annotations

import mmap
import os
from typing import Any

import pytest

from ackline import Queue, State
from ackline.core import lifecycle
from ackline.core.config import DEFAULTS
from ackline.maintenance.reaper import RecoveredJobs, expire_worker
from ackline.worker.leased_jobs import LeasedJob, SettleBuffer
from ackline.worker.processes import started_jobs as module
from ackline.worker.processes.started_jobs import (
    SIZE,
    SLOTS,
    StartedJobs,
    StartedJobsWriter,
    inherited_writer,
)


@pytest.fixture
def started():
    started = StartedJobs()
    yield started
    started.close()


@pytest.fixture
def writer(started: StartedJobs) -> StartedJobsWriter:
    return StartedJobsWriter(mmap.mmap(started.file, SIZE))


def claim(queue: Queue[Any, Any], count: int) -> list[LeasedJob]:
    queue.handler("default")(lambda job: None)
    queue.enqueue_many(range(count))
    jobs = queue.claim(count, worker="w")
    handler = queue.handlers["default"]
    return [LeasedJob(queue, job.record, handler, queue.policies.of(job.record)) for job in jobs]


def test_started_and_unsettled_jobs_are_known(queue, started, writer):
    first, second, third = claim(queue, 3)
    writer.add(first)
    writer.add(second)
    second.forget()
    records = [first.record, second.record, third.record]
    assert started.never_started(records) == [second.record, third.record]


def test_a_mark_is_removed_only_once(queue, started, writer):
    first, second = claim(queue, 2)
    writer.add(first)
    first.forget()
    writer.add(second)

    first.forget()

    assert started.never_started([second.record]) == []


def test_a_job_that_was_lost_before_its_mark_keeps_no_slot(queue, started, writer):
    [job] = claim(queue, 1)
    assert job.mark_lost()

    writer.add(job)

    assert started.never_started([job.record]) == [job.record]


def test_a_job_that_is_being_settled_cannot_be_lost(queue):
    [job] = claim(queue, 1)
    buffer = SettleBuffer(1, lambda: False)

    buffer.put(job, lifecycle.release(job.record, DEFAULTS))
    buffer.put(job, lifecycle.release(job.record, DEFAULTS))

    assert not job.mark_lost()
    assert not job.lost
    assert len(buffer) == 1


def test_no_outcome_of_a_lost_lease_is_sent(queue):
    [job] = claim(queue, 1)
    buffer = SettleBuffer(1, lambda: False)
    assert job.mark_lost()

    buffer.put(job, lifecycle.release(job.record, DEFAULTS))

    assert not job.mark_lost()
    assert len(buffer) == 0


def test_unstarted_jobs_are_released_without_an_attempt(queue, started, writer):
    first, second, third = claim(queue, 3)
    writer.add(first)

    assert expire_worker(queue, "w", "killed", started.never_started) == RecoveredJobs(
        expired=1, released=2
    )

    [hit] = [job for job in queue.jobs().jobs if job.id == first.id]
    assert hit.attempt == 1
    for unstarted in (second, third):
        assert queue.status(unstarted.id).state is State.QUEUED
        assert queue.status(unstarted.id).attempt == 0


def test_control_without_marks_all_jobs_lose_an_attempt(queue):
    claim(queue, 3)
    assert expire_worker(queue, "w", "killed") == RecoveredJobs(expired=3)


def test_a_process_without_marks_may_have_started_any_job(queue, started):
    jobs = claim(queue, 2)
    assert started.never_started([one.record for one in jobs]) == []


def test_with_all_slots_used_any_job_may_have_started(queue, started, monkeypatch):
    monkeypatch.setattr(module, "SLOTS", 2)
    writer = StartedJobsWriter(mmap.mmap(started.file, SIZE))
    jobs = claim(queue, 3)
    for one in jobs[:2]:
        writer.add(one)
    assert started.never_started([one.record for one in jobs]) == []
    assert SLOTS > 1000


def test_a_process_writes_only_to_its_own_file(started, monkeypatch):
    inherited_writer.cache_clear()
    [(name, value)] = started.environment.items()
    number, device, inode = value.split()
    monkeypatch.setenv(name, f"{number} {device} {int(inode) + 1}")
    assert inherited_writer() is None
    assert name not in os.environ
    inherited_writer.cache_clear()
    monkeypatch.setenv(module.ENVIRONMENT_VARIABLE, value)
    assert inherited_writer() is not None
    inherited_writer.cache_clear()
