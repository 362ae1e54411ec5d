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
from ackline.worker.held import LeasedJob
from ackline.worker.outbox import SettleBuffer
from ackline.worker.processes import started_jobs as module
from ackline.worker.processes.started_jobs import (
    SIZE,
    SLOTS,
    StartedJobs,
    StartedJobsWriter,
    inherited_writer,
)


@pytest.fixture
def begun():
    begun = StartedJobs()
    yield begun
    begun.close()


@pytest.fixture
def board(begun: StartedJobs) -> StartedJobsWriter:
    return StartedJobsWriter(mmap.mmap(begun.file, SIZE))


def claim(queue: Queue[Any, Any], count: int) -> list[LeasedJob]:
    queue.handler("default")(lambda job: None)
    queue.enqueue_many(range(count))
    jobs = queue.claim(count, worker="w")
    handler = queue.handlers["default"]
    return [LeasedJob(queue, job.record, handler, queue.policies.of(job.record)) for job in jobs]


def test_what_has_begun_and_is_not_settled_is_known(queue, begun, board):
    first, second, third = claim(queue, 3)
    board.begin(first)
    board.begin(second)
    second.forget()
    records = [first.record, second.record, third.record]
    assert begun.unbegun(records) == [second.record, third.record]


def test_a_mark_is_wiped_once_for_its_slot_may_be_another_jobs_by_then(queue, begun, board):
    first, second = claim(queue, 2)
    board.begin(first)
    first.forget()
    board.begin(second)

    first.forget()

    assert begun.unbegun([second.record]) == []


def test_a_job_that_was_lost_before_its_mark_keeps_no_slot(queue, begun, board):
    [held] = claim(queue, 1)
    assert held.mark_lost()

    board.begin(held)

    assert begun.unbegun([held.record]) == [held.record]


def test_an_outcome_on_its_way_is_not_lost_as_well(queue):
    [held] = claim(queue, 1)
    outbox = SettleBuffer(1, lambda: False)

    outbox.put(held, lifecycle.release(held.record, DEFAULTS))
    outbox.put(held, lifecycle.release(held.record, DEFAULTS))

    assert not held.mark_lost()
    assert not held.lost
    assert len(outbox) == 1


def test_of_a_lost_lease_no_outcome_is_sent(queue):
    [held] = claim(queue, 1)
    outbox = SettleBuffer(1, lambda: False)
    assert held.mark_lost()

    outbox.put(held, lifecycle.release(held.record, DEFAULTS))

    assert not held.mark_lost()
    assert len(outbox) == 0


def test_to_those_that_had_not_begun_a_death_costs_nothing(queue, begun, board):
    first, second, third = claim(queue, 3)
    board.begin(first)

    assert expire_worker(queue, "w", "killed", begun.unbegun) == RecoveredJobs(
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


def test_a_process_that_marks_nothing_may_have_begun_anything(queue, begun):
    held = claim(queue, 2)
    assert begun.unbegun([one.record for one in held]) == []


def test_when_there_is_no_room_for_a_mark_anything_may_have_begun(queue, begun, monkeypatch):
    monkeypatch.setattr(module, "SLOTS", 2)
    board = StartedJobsWriter(mmap.mmap(begun.file, SIZE))
    held = claim(queue, 3)
    for one in held[:2]:
        board.add(one)
    assert begun.unbegun([one.record for one in held]) == []
    assert SLOTS > 1000


def test_a_process_writes_only_on_the_board_that_is_meant(begun, monkeypatch):
    inherited_writer.cache_clear()
    [(name, value)] = begun.environment.items()
    number, device, inode = value.split()
    monkeypatch.setenv(name, f"{number} {device} {int(inode) + 1}")
    assert inherited_writer() is None
    assert name not in os.environ
    inherited_writer.cache_clear()
    monkeypatch.setenv(module.ENVIRONMENT_VARIABLE, value)
    assert inherited_writer() is not None
    inherited_writer.cache_clear()
