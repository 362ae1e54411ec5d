"""Leased jobs: forks while one is decided, and observers that fail."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ackline import Act, State, Worker
from ackline.worker.leased_jobs import LeasedJob
from tests.slow_handler import SOON
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Deciding(LeasedJob):
    """It is in the middle of being decided how this one ends."""

    __slots__ = ("go_on", "started")

    @property
    def lost(self) -> bool:
        self.started.set()
        return not self.go_on.wait(SOON)

    @lost.setter
    def lost(self, value: bool) -> None:
        self.started, self.go_on = threading.Event(), threading.Event()


def test_a_forked_child_can_settle_while_its_parent_was_settling(queue):
    queue.handler("default")(lambda job: None)
    queue.enqueue_many([1, 2])
    first, second = (job.record for job in queue.claim(2))
    handler, policy = queue.handlers["default"], queue.policies.of(first)
    deciding, other = (
        Deciding(queue, first, handler, policy),
        LeasedJob(queue, second, handler, policy),
    )
    thread = threading.Thread(target=deciding.mark_settling)
    thread.start()
    assert deciding.started.wait(SOON)

    child = os.fork()
    if child == 0:
        signal.alarm(2)
        os._exit(0 if other.mark_settling() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    deciding.go_on.set()
    thread.join()

    assert code == 0


class FailingObserver:
    def settled(self, key, batch, verdicts):
        raise ValueError("no such metric")

    def lost(self, key, job):
        raise ValueError("no such metric")


def test_an_observer_that_fails_costs_no_job(queue, caplog):
    queue.handler("default", max_attempts=1)(lambda job: job.payload)
    worker = Worker(queue)
    worker.observe(FailingObserver())
    queue.enqueue_many(range(100))
    worker.start()
    try:
        until(lambda: queue.counts()[State.COMPLETED] == 100)
    finally:
        worker.stop()
    claims = [event for event in queue.events() if event.act == Act.CLAIM]
    assert len(claims) == 100
    assert "the observer of its jobs failed" in caplog.text


def test_a_handler_is_stopped_after_a_lost_lease_that_cannot_be_observed(queue):
    running, stopped = threading.Event(), threading.Event()

    @queue.handler(lease=1.0)
    def slow(job):
        running.set()
        if job.signal.wait(SOON):
            stopped.set()

    worker = Worker(queue, maintenance=False)
    worker.observe(FailingObserver())
    worker.start()
    try:
        queue.enqueue(1)
        assert running.wait(SOON)
        queue.purge(states=[State.PROCESSING])
        assert stopped.wait(SOON)
    finally:
        worker.stop()
