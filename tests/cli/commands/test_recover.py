"""Jobs of dead workers: recovered by hand, counted, reported."""

from __future__ import annotations

import time

import pytest

import ackline
from ackline import Queue, State
from ackline.maintenance import expire_worker
from ackline.testing import ManualClock


@pytest.fixture
def stuck(workdir):
    """A queue without automatic recovery, and a job that needs it."""
    clock = ManualClock(time.time() - 1000)
    with ackline.open("sqlite:///ackline.db", clock=clock) as past:
        queue: Queue[int, None] = past["email"]
        queue.configure(recovery=False, stuck_after=60.0)
        queue.enqueue(1, id="poor-one", max_attempts=1)
        queue.claim(lease=5)
    with ackline.open("sqlite:///ackline.db") as now:
        yield now["email"]


def test_recover_of_expired_leases(cli, stuck):
    answer = cli("recover", "email")

    assert answer.out == "email: 1 job recovered, 1 moved to the DLQ\n"
    assert stuck.counts()[State.FAILED] == 1
    assert cli("recover", "email").out == "email: 0 jobs recovered\n"


def test_recover_as_json(cli, stuck):
    assert cli("recover", "email", "--json").document == {"expired": 1, "dead_lettered": 1}


def test_doctor_lists_stuck_jobs_with_advice(cli, stuck):
    answer = cli("doctor")

    assert answer.code == 1
    assert "1 lease overdue" in answer.out
    assert "stuck: poor-one" in answer.out
    assert "ackline recover email" in answer.out


def test_doctor_counts_recovered_jobs(cli, queues):
    queues["email"].enqueue(1)
    queues["email"].claim(worker="gone")
    expire_worker(queues["email"], "gone", "killed")

    answer = cli("doctor")

    assert answer.code == 0
    assert "monitor 1 " in answer.out


def test_queues_have_the_recovery_as_json(cli, stuck):
    [shown] = cli("queues", "--json").document["queues"]

    assert shown["recovery"]["overdue"] == 1
    assert shown["recovery"]["stuck"] == ["poor-one"]
    cli("recover", "email")
    [shown] = cli("queues", "--json").document["queues"]
    assert shown["recovery"]["jobs"] == 1
    assert shown["recovery"]["by_source"]["manual"]["dead_lettered"] == 1
