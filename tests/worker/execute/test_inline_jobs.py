"""A quick job that comes alone is run inline, by the thread that claimed it."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from ackline import JobFailed, NewJob, State, Worker
from ackline.worker.execute import executor, thread_executor
from ackline.worker.execute.executor import ExecutorContext
from ackline.worker.execute.thread_executor import ThreadExecutor
from ackline.worker.hooks import NO_HOOKS
from ackline.worker.leased_jobs import LeasedJob
from ackline.worker.timers import Timers
from tests.slow_handler import SOON, SlowHandler
from tests.waiting import until


class InlineFixture(SlowHandler):
    """A queue with a handler that is quick, unless it has to wait."""

    def __init__(self, queue, **options):
        super().__init__()
        self.queue = queue
        queue.handler(**options)(self)

    def inline(self):
        """Have quick jobs run until one was run inline."""
        until(lambda: "claims" in self.queue.enqueue_and_wait("quick", timeout=SOON))

    def slow_inline(self):
        """Have a job run inline that is not quick after all."""
        self.inline()
        until(self._idle)
        self.queue.enqueue("slow", id="slow")
        assert self.began.wait(SOON)

    def _idle(self):
        return not self.queue.counts()[State.PROCESSING]


def test_a_slow_job_is_not_run_inline(queue, start):
    @queue.handler
    def slow(job):
        time.sleep(0.003)  # longer than what counts as quick
        return threading.current_thread().name

    start(queue)
    ran_in = [queue.enqueue_and_wait(1, timeout=SOON) for _ in range(5)]
    assert not [name for name in ran_in if "claims" in name]


def test_a_slow_inline_job_does_not_delay_others(queue, start, monkeypatch):
    # Only a notification makes a thread claim, not the time.
    monkeypatch.setattr("ackline.queue.consume.MAX_POLL_INTERVAL", 60.0)
    monkeypatch.setattr("ackline.worker.claim_loop.MAX_POLL_INTERVAL", 60.0)
    fixture = InlineFixture(queue)
    start(queue)
    fixture.slow_inline()

    # One at a time: each notification has to arrive while that thread is busy.
    ran_in = [queue.enqueue_and_wait("quick", timeout=SOON) for _ in range(5)]

    # The other thread must not run any: no thread would listen for the next.
    assert not [name for name in ran_in if "claims" in name]
    fixture.go_on.set()
    assert "claims" in queue.result("slow", timeout=SOON)


def test_jobs_claimed_together_are_not_run_inline(queue, start):
    fixture = InlineFixture(queue)

    @queue.handler("async")
    async def other_handler(job):
        return "ran"

    start(queue)
    fixture.inline()
    queue.enqueue_many([NewJob("slow"), NewJob("x", kind="async", id="beside")])
    assert queue.result("beside", timeout=SOON) == "ran"
    fixture.go_on.set()


def test_the_slot_of_a_notified_thread_is_not_taken(queue, monkeypatch):
    monkeypatch.setattr(thread_executor, "QUICK_SECONDS", SOON)
    executor = ThreadExecutor(1, ExecutorContext(lambda *_: None, NO_HOOKS, Timers(), lambda: None))
    fixture = InlineFixture(queue)
    queue.enqueue_many(["quick"] * 3)
    first, second, third = (
        LeasedJob(queue, job.record, queue.handlers["default"], queue.policies.of(job.record))
        for job in queue.claim(3)
    )
    executor.submit([first])
    until(lambda: fixture.most == 1 and executor.running_count == 0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SOON)  # no thread wakes up meanwhile
    try:
        executor.submit([second])
        executor.take_buffered()
        assert not executor.run_inline(third)
    finally:
        sys.setswitchinterval(interval)
    until(lambda: executor.running_count == 0)
    assert executor.run_inline(third)
    assert fixture.most == 1
    executor.stop()


@pytest.mark.parametrize("concurrency", [1, 2])
def test_an_inline_job_counts_towards_the_concurrency(queue, start, concurrency):
    fixture = InlineFixture(queue)
    start(queue, concurrency=concurrency)
    fixture.slow_inline()
    queue.enqueue_many(["slow"] * 3)
    if concurrency > 1:
        until(lambda: fixture.most == concurrency)
    fixture.go_on.set()
    queue.enqueue_and_wait("quick", priority=0, timeout=SOON)
    assert fixture.most == concurrency


def test_an_inline_job_that_ignores_its_timeout_frees_its_slot(queue, start, monkeypatch):
    monkeypatch.setattr(executor, "STOP_TIMEOUT", 0.05)
    fixture = InlineFixture(queue, timeout=0.3, max_attempts=1)
    start(queue, concurrency=1)
    fixture.slow_inline()
    with pytest.raises(JobFailed, match=r"0\.3 s"):
        queue.result("slow", timeout=SOON)
    assert queue.enqueue_and_wait("quick", timeout=SOON)

    fixture.go_on.set()
    until(lambda: fixture.running == 0)
    fixture.most = 0
    fixture.inline()
    queue.enqueue_many(["quick"] * 50)
    queue.enqueue_and_wait("quick", priority=0, timeout=SOON)
    assert fixture.most == 1


def test_a_stop_leaves_a_hung_inline_job_behind(queue, monkeypatch):
    monkeypatch.setattr("ackline.worker.worker.INTERRUPT_SECONDS", 0.05)
    fixture = InlineFixture(queue)
    worker = Worker(queue, grace=0.05)
    worker.start()
    fixture.slow_inline()

    started = time.monotonic()
    worker.stop()

    assert time.monotonic() - started < 5
    assert queue.status("slow").state is State.QUEUED
    fixture.go_on.set()
    until(lambda: not [one for one in threading.enumerate() if "ackline claims" in one.name])
    assert queue.status("slow").state is State.QUEUED
