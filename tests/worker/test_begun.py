"""What a supervisor knows of a dead process: which of its jobs had begun."""

from __future__ import annotations

import mmap
import os
from typing import Any

import pytest

from ackline import Queue, State, lifecycle
from ackline.config import DEFAULTS
from ackline.maintenance.reaper import Freed, expire_worker
from ackline.worker import begun as module
from ackline.worker.begun import SIZE, SLOTS, Begun, Board, inherited_board
from ackline.worker.held import Held
from ackline.worker.outbox import Outbox


@pytest.fixture
def begun():
    begun = Begun()
    yield begun
    begun.close()


@pytest.fixture
def board(begun: Begun) -> Board:
    return Board(mmap.mmap(begun.file, SIZE))


def claim(queue: Queue[Any, Any], count: int) -> list[Held]:
    queue.handler("default")(lambda job: None)
    queue.enqueue_many(range(count))
    jobs = queue.claim(count, worker="w")
    handler = queue.handlers["default"]
    return [Held(queue, job.record, handler, queue.policies.of(job.record)) for job in jobs]


def test_what_has_begun_and_is_not_settled_is_known(queue, begun, board):
    first, second, third = claim(queue, 3)
    board.begin(first)
    board.begin(second)
    second.finish()
    records = [first.record, second.record, third.record]
    assert begun.unbegun(records) == [second.record, third.record]


def test_a_mark_is_wiped_once_for_its_slot_may_be_another_jobs_by_then(queue, begun, board):
    first, second = claim(queue, 2)
    board.begin(first)
    first.finish()
    board.begin(second)

    first.finish()

    assert begun.unbegun([second.record]) == []


def test_a_job_that_was_lost_before_its_mark_keeps_no_slot(queue, begun, board):
    [held] = claim(queue, 1)
    assert held.lose()

    board.begin(held)

    assert begun.unbegun([held.record]) == [held.record]


def test_an_outcome_on_its_way_is_not_lost_as_well(queue):
    [held] = claim(queue, 1)
    outbox = Outbox(1, lambda: False)

    outbox.put(held, lifecycle.release(held.record, DEFAULTS))
    outbox.put(held, lifecycle.release(held.record, DEFAULTS))

    assert not held.lose()
    assert not held.lost
    assert len(outbox) == 1


def test_of_a_lost_lease_no_outcome_is_sent(queue):
    [held] = claim(queue, 1)
    outbox = Outbox(1, lambda: False)
    assert held.lose()

    outbox.put(held, lifecycle.release(held.record, DEFAULTS))

    assert not held.lose()
    assert len(outbox) == 0


def test_to_those_that_had_not_begun_a_death_costs_nothing(queue, begun, board):
    first, second, third = claim(queue, 3)
    board.begin(first)

    assert expire_worker(queue, "w", "killed", begun.unbegun) == Freed(expired=1, released=2)

    [hit] = [job for job in queue.jobs().jobs if job.id == first.id]
    assert hit.attempts == 1
    for spared in (second, third):
        assert queue.status(spared.id).state is State.QUEUED
        assert queue.status(spared.id).attempts == 0


def test_control_without_it_all_of_them_pay(queue):
    claim(queue, 3)
    assert expire_worker(queue, "w", "killed") == Freed(expired=3)


def test_a_process_that_marks_nothing_may_have_begun_anything(queue, begun):
    held = claim(queue, 2)
    assert begun.unbegun([one.record for one in held]) == []


def test_when_there_is_no_room_for_a_mark_anything_may_have_begun(queue, begun, monkeypatch):
    monkeypatch.setattr(module, "SLOTS", 2)
    board = Board(mmap.mmap(begun.file, SIZE))
    held = claim(queue, 3)
    for one in held[:2]:
        board.begin(one)
    assert begun.unbegun([one.record for one in held]) == []
    assert SLOTS > 1000


def test_a_process_writes_only_on_the_board_that_is_meant(begun, monkeypatch):
    inherited_board.cache_clear()
    [(name, value)] = begun.environment.items()
    number, device, inode = value.split()
    monkeypatch.setenv(name, f"{number} {device} {int(inode) + 1}")
    assert inherited_board() is None
    assert name not in os.environ
    inherited_board.cache_clear()
    monkeypatch.setenv(module.VARIABLE, value)
    assert inherited_board() is not None
    inherited_board.cache_clear()
