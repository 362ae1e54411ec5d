"""What a supervisor knows of a dead process: which of its jobs had begun."""

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


def test_what_has_begun_and_is_not_settled_is_known(queue, started, writer):
    first, second, third = claim(queue, 3)
    writer.add(first)
    writer.add(second)
    second.forget()
    records = [first.record, second.record, third.record]
    assert started.never_started(records) == [second.record, third.record]


def test_a_mark_is_wiped_once_for_its_slot_may_be_another_jobs_by_then(queue, started, writer):
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


def test_an_outcome_on_its_way_is_not_lost_as_well(queue):
    [job] = claim(queue, 1)
    buffer = SettleBuffer(1, lambda: False)

    buffer.put(job, lifecycle.release(job.record, DEFAULTS))
    buffer.put(job, lifecycle.release(job.record, DEFAULTS))

    assert not job.mark_lost()
    assert not job.lost
    assert len(buffer) == 1


def test_of_a_lost_lease_no_outcome_is_sent(queue):
    [job] = claim(queue, 1)
    buffer = SettleBuffer(1, lambda: False)
    assert job.mark_lost()

    buffer.put(job, lifecycle.release(job.record, DEFAULTS))

    assert not job.mark_lost()
    assert len(buffer) == 0


def test_to_those_that_had_not_begun_a_death_costs_nothing(queue, started, writer):
    first, second, third = claim(queue, 3)
    writer.add(first)

    assert expire_worker(queue, "w", "killed", started.never_started) == RecoveredJobs(
        expired=1, released=2
    )

    [hit] = [job for job in queue.jobs().jobs if job.id == first.id]
    assert hit.attempts == 1
    for spared in (second, third):
        assert queue.status(spared.id).state is State.QUEUED
        assert queue.status(spared.id).attempts == 0


def test_control_without_it_all_of_them_pay(queue):
    claim(queue, 3)
    assert expire_worker(queue, "w", "killed") == RecoveredJobs(expired=3)


def test_a_process_that_marks_nothing_may_have_begun_anything(queue, started):
    jobs = claim(queue, 2)
    assert started.never_started([one.record for one in jobs]) == []


def test_when_there_is_no_room_for_a_mark_anything_may_have_begun(queue, started, monkeypatch):
    monkeypatch.setattr(module, "SLOTS", 2)
    writer = StartedJobsWriter(mmap.mmap(started.file, SIZE))
    jobs = claim(queue, 3)
    for one in jobs[:2]:
        writer.add(one)
    assert started.never_started([one.record for one in jobs]) == []
    assert SLOTS > 1000


def test_a_process_writes_only_on_the_board_that_is_meant(started, monkeypatch):
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
