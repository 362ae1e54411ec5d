"""Timeouts, lost leases, cancel requests and heartbeats."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from ackline import JobFailed, State
from ackline.worker import timekeeper

SOON = 10.0


def test_an_async_handler_is_cancelled_at_its_timeout(queue, start):
    stopped = threading.Event()

    @queue.handler(timeout=0.05, max_attempts=1)
    async def endless(job):
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    start(queue)
    with pytest.raises(JobFailed, match=r"took longer than 0\.05 s"):
        queue.enqueue_and_wait(1, timeout=SOON)
    assert stopped.is_set()


def test_a_sync_handler_is_told_by_its_signal_at_its_timeout(queue, start):
    reasons = []

    @queue.handler(timeout=0.05, max_attempts=1)
    def patient(job):
        job.signal.wait(SOON)
        reasons.append(job.signal.reason)
        return "too late"

    start(queue)
    with pytest.raises(JobFailed, match=r"took longer than 0\.05 s"):
        queue.enqueue_and_wait(1, timeout=SOON)
    assert reasons == ["timeout"]


def test_a_handler_that_ignores_its_timeout_is_settled_without_it(queue, start, monkeypatch):
    monkeypatch.setattr(timekeeper, "GIVE_UP", 0.05)
    go_on = threading.Event()

    @queue.handler(timeout=0.05, max_attempts=1)
    def deaf(job):
        if job.payload == "hang":
            go_on.wait(SOON)
        return "fine"

    start(queue, concurrency=1)
    with pytest.raises(JobFailed, match=r"took longer than 0\.05 s"):
        queue.enqueue_and_wait("hang", timeout=SOON)
    # The lane hangs, yet the worker goes on with another.
    assert queue.enqueue_and_wait("next", timeout=SOON) == "fine"
    go_on.set()


def test_the_handler_of_a_lost_lease_is_stopped_and_its_result_refused(queue, start):
    began, stopped = threading.Event(), threading.Event()

    @queue.handler(lease=0.3)
    async def unlucky(job):
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            return "a zombie's result"

    queue.enqueue(1, id="a")
    start(queue)
    assert began.wait(SOON)
    # An operator takes the job away: the lease is gone.
    assert queue.purge(ids=["a"]) == 1
    assert stopped.wait(SOON)
    assert queue.status("a") is None


def test_a_cancel_request_sets_the_signal_of_a_running_job_at_once(queue, start):
    began = threading.Event()

    @queue.handler
    def polite(job):
        began.set()
        return "stopped" if job.signal.wait(SOON) else "never asked"

    queue.enqueue(1, id="a")
    start(queue)
    assert began.wait(SOON)
    asked = time.monotonic()
    assert queue.cancel("a") is State.PROCESSING
    assert queue.result("a", timeout=SOON) == "stopped"
    assert time.monotonic() - asked < 1.0


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_blocked_event_loop_does_not_lose_its_leases(queue, start, sort):
    deliveries = []

    def block(job):
        deliveries.append(job.attempts)
        time.sleep(1.2)  # longer than the lease, on purpose: only the heartbeat keeps it

    async def block_async(job):
        block(job)

    queue.configure(policy=queue.stored_settings().policy.__class__(lease=0.4))
    queue.handler(block if sort == "sync" else block_async)
    start(queue)
    queue.enqueue_and_wait(1, timeout=SOON)
    assert deliveries == [1]


def test_a_worker_is_known_to_the_store_and_says_goodbye(queue, start):
    queue.handler(lambda job: None)
    worker = start(queue, concurrency=7)
    (known,) = queue.workers()
    assert known.beat.id == worker.id
    assert known.beat.concurrency == 7
    assert known.beat.kinds == ("default",)
    worker.stop()
    assert queue.workers() == []
