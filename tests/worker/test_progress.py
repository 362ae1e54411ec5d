"""Progress that handlers report."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest

from ackline import Act, JobFailed, Retry
from ackline.worker.progress import WRITE_INTERVAL, ProgressWriter
from tests.waiting import TIMEOUT, until


def reports(queue):
    return [event for event in queue.events() if event.act == Act.PROGRESS]


@pytest.mark.every_store
def test_the_last_value_is_stored_before_the_outcome(queue, start):
    @queue.handler
    def count(job):
        for n in range(1000):
            job.report(n)

    start(queue)
    queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
    assert queue.status("a").progress == 999
    assert len(reports(queue)) <= 3


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_it_is_written_at_most_twice_a_second(queue, start, sort):
    def count(job):
        started = time.monotonic()
        while time.monotonic() < started + 1.2:
            job.report(time.monotonic() - started)
            time.sleep(0.01)

    async def count_async(job):
        for n in range(120):
            job.report(n / 100)
            await asyncio.sleep(0.01)

    queue.handler("default")(count if sort == "sync" else count_async)
    start(queue)
    queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
    job = queue.status("a")
    assert job.progress > 1
    ran = (job.finished_at - job.started_at).total_seconds()
    assert 2 <= len(reports(queue)) <= ran / WRITE_INTERVAL + 2


def test_others_can_read_it_while_the_job_runs(queue, start):
    seen = threading.Event()

    @queue.handler
    def work(job):
        job.report("begun")
        assert seen.wait(TIMEOUT)

    start(queue)
    queue.enqueue(1, id="a")
    until(lambda: queue.status("a").progress == "begun")
    seen.set()
    queue.result("a", timeout=TIMEOUT)


def test_a_slow_store_blocks_no_event_loop(queue, start, monkeypatch):
    apply, took = queue.apply, []

    def slow(transitions, *arguments):
        if any(transition.act is Act.PROGRESS for transition in transitions):
            time.sleep(0.3)
        return apply(transitions, *arguments)

    monkeypatch.setattr(queue, "apply", slow)

    @queue.handler
    async def work(job):
        for n in range(10):
            started = time.monotonic()
            job.report(n)
            took.append(time.monotonic() - started)
            await asyncio.sleep(0.01)

    start(queue)
    queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
    assert max(took) < 0.2
    assert queue.status("a").progress == 9


def test_a_value_that_cannot_be_stored_is_rejected_at_once(queue, start):
    @queue.handler("default", max_attempts=1)
    def work(job):
        job.report(object())

    start(queue)
    with pytest.raises(JobFailed, match="progress"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


@pytest.mark.every_store
def test_a_job_that_was_looked_up_has_its_times_and_its_end(queue, start):
    before = datetime.now(UTC)

    @queue.handler("default", max_attempts=4, backoff=0)
    def work(job):
        assert (job.max_attempts, job.created_at.tzinfo) == (4, UTC)
        assert job.created_at <= job.started_at < job.deadline
        if job.attempt == 1:
            raise Retry(0, "not yet")
        return "done"

    start(queue)
    queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
    job = queue.status("a")
    assert (job.attempt, job.max_attempts, job.result) == (2, 4, "done")
    assert (job.error.type, job.error.message) == ("Retry", "not yet")
    assert abs((job.created_at - before).total_seconds()) < 60
    assert job.created_at <= job.started_at <= job.finished_at
    assert job.deadline is None
    # A datetime is rounded to microseconds.
    assert list(queue.jobs(created_after=job.created_at - timedelta(microseconds=1))) != []


def test_progress_is_stored_after_a_thread_could_not_be_started(queue, monkeypatch):
    def no_thread(thread):
        raise RuntimeError("can't start new thread")

    queue.enqueue(1, id="a")
    [job] = queue.claim()
    writer = ProgressWriter(queue)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            writer.put(job, queue.serdes.encode_progress(1))
    writer.put(job, queue.serdes.encode_progress(2))
    until(lambda: queue.status("a").progress == 2)


def test_a_value_that_is_being_stored_is_pending(queue):
    """Or the outcome would overtake it, and the value would be rejected."""
    queue.enqueue(1, id="a")
    [job] = queue.claim()
    entered, go_on = threading.Event(), threading.Event()
    apply = queue.apply

    def slow_apply(transitions):
        entered.set()
        assert go_on.wait(TIMEOUT)
        return apply(transitions)

    with mock.patch.object(queue, "apply", slow_apply):
        writer = ProgressWriter(queue)
        writer.put(job, b"1")
        assert entered.wait(TIMEOUT)
        pending = writer.pending
        go_on.set()
        writer.flush([job])

    assert pending
    assert queue.status("a").progress == 1
    assert not writer.pending
