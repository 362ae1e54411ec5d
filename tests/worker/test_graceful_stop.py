"""Graceful stops: nothing is lost, nothing is punished."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from ackline import ConfigError, Queue, State
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore
from ackline.worker import Worker
from tests.waiting import TIMEOUT


@pytest.mark.every_store
def test_running_jobs_end_and_waiting_ones_are_released_without_an_attempt(queue):
    began = threading.Event()

    @queue.handler
    def slow(job):
        began.set()
        job.signal.wait(0.3)  # the stop is asked for while it runs
        queue.enqueue("new", id="after", priority=9)
        return "ended"

    queue.enqueue(0, id="running")
    queue.enqueue_many(range(20))
    worker = Worker(queue, concurrency=1, grace=TIMEOUT)
    worker.start()
    assert began.wait(TIMEOUT)
    worker.stop()

    assert queue.result("running") == "ended"
    counts = queue.counts()
    assert counts[State.COMPLETED] == 1
    assert counts[State.QUEUED] == 21
    page = queue.jobs(states=["queued"])
    assert {job.attempt for job in page.jobs} == {0}


def test_after_the_grace_period_running_jobs_are_released(queue):
    began = threading.Event()

    @queue.handler
    async def endless(job):
        began.set()
        await asyncio.sleep(60)

    queue.enqueue(1, id="a")
    worker = Worker(queue, grace=0.05)
    worker.start()
    assert began.wait(TIMEOUT)
    worker.stop()

    job = queue.status("a")
    assert job.state is State.QUEUED
    assert job.attempt == 0


def test_a_sync_handler_that_does_not_stop_is_released_and_cannot_settle(queue, monkeypatch):
    monkeypatch.setattr("ackline.worker.worker.INTERRUPT_SECONDS", 0.05)
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @queue.handler
    def never_stops(job):
        began.set()
        go_on.wait(TIMEOUT)
        ended.set()
        return "too late"

    queue.enqueue(1, id="a")
    worker = Worker(queue, grace=0.05)
    worker.start()
    assert began.wait(TIMEOUT)
    worker.stop()
    go_on.set()
    assert ended.wait(TIMEOUT)
    assert queue.status("a").state is State.QUEUED


def test_a_second_request_does_not_wait_for_the_grace_period(queue):
    began = threading.Event()

    @queue.handler
    async def endless(job):
        began.set()
        await asyncio.sleep(60)

    queue.enqueue(1, id="a")
    worker = Worker(queue, grace=60)
    running = threading.Thread(target=worker.run)
    running.start()
    assert began.wait(TIMEOUT)
    asked = time.monotonic()
    worker.request_stop()
    worker.request_stop()
    running.join(TIMEOUT)
    assert not running.is_alive()
    assert time.monotonic() - asked < 5
    assert queue.status("a").state is State.QUEUED


class StallingStore(MemoryStore):
    """Once it is stalled, no call is answered until it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()
        self.over = threading.Event()

    def end(self) -> None:
        self.go_on.set()
        self.over.set()

    def claim(self, queue: Any, request: Any, transitions: Any = ()) -> Any:
        self.go_on.wait(60)
        return super().claim(queue, request, transitions)

    def apply(self, queue: Any, transitions: Any) -> Any:
        self.go_on.wait(60)
        return super().apply(queue, transitions)

    def heartbeat(self, queue: Any, sent: Any, extensions: Any) -> Any:
        self.go_on.wait(60)
        return super().heartbeat(queue, sent, extensions)

    def describe(self, tenant: Any, name: Any = None, **options: Any) -> Any:
        self.go_on.wait(60)
        return super().describe(tenant, name, **options)


def begin_on_a_store_that_stalls(store: StallingStore, *others: Queue[Any, Any]) -> Worker:
    """A worker that runs a job that never stops in each queue, and whose store does not respond."""
    queues = [Queues(store)["work"], *others]
    began = threading.Barrier(len(queues) + 1)

    def never_stops(job: Any) -> None:
        began.wait(TIMEOUT)
        store.over.wait(60)

    for queue in queues:
        queue.handler(never_stops)
        queue.enqueue(1, id="a")
    worker = Worker(*queues, grace=60)
    worker.start()
    began.wait(TIMEOUT)
    store.go_on.clear()
    return worker


def test_a_second_request_does_not_wait_for_a_store_that_does_not_respond(monkeypatch, caplog):
    monkeypatch.setattr("ackline.worker.worker.RELEASE_TIMEOUT", 0.2)
    store = StallingStore()
    worker = begin_on_a_store_that_stalls(store)
    try:
        asked = time.monotonic()
        worker.request_stop()
        worker.request_stop()
        worker.stop()
        assert time.monotonic() - asked < 3
        assert "gave up waiting for the store" in caplog.text
        job = Queues(store)["work"].status("a")
        assert job is not None
        assert job.state is State.PROCESSING
    finally:
        store.end()


def test_a_store_that_does_not_respond_does_not_delay_another(monkeypatch, queue):
    monkeypatch.setattr("ackline.worker.worker.RELEASE_TIMEOUT", 1.0)
    store = StallingStore()
    worker = begin_on_a_store_that_stalls(store, queue)
    try:
        worker.request_stop()
        worker.request_stop()
        worker.stop()
        job = queue.status("a")
        assert (job.state, job.attempt) == (State.QUEUED, 0)
    finally:
        store.end()


def test_a_failing_step_of_the_shutdown_does_not_stop_the_others(queue, monkeypatch, caplog):
    began, threads = threading.Event(), []

    @queue.handler
    async def endless(job):
        threads.append(threading.current_thread())
        began.set()
        await asyncio.sleep(60)

    failed = set()

    def break_step(step: str) -> None:
        def fail(*_arguments: object) -> None:
            failed.add(step)
            raise RuntimeError(f"a bug of ours in {step}")

        monkeypatch.setattr(f"ackline.worker.queue_runner.{step}", fail)

    queue.enqueue(1, id="a")
    worker = Worker(queue, grace=0.05)
    worker.start()
    assert began.wait(TIMEOUT)
    monkeypatch.setattr("ackline.worker.worker.INTERRUPT_SECONDS", 0.05)
    steps = {"QueueRunner.interrupt_handlers", "Timers.stop"}
    for step in steps:
        break_step(step)
    worker.stop()

    assert queue.status("a").state is State.QUEUED
    assert failed == steps
    assert all(f"a bug of ours in {step}" in caplog.text for step in steps)
    assert not threads[0].is_alive()


def test_a_request_that_comes_before_the_start_is_not_forgotten(queue):
    queue.handler(lambda job: None)
    worker = Worker(queue)
    worker.request_stop()
    running = threading.Thread(target=worker.run)
    running.start()
    running.join(TIMEOUT)
    assert not running.is_alive()


def test_a_stop_by_another_thread_ends_run_though_it_did_not_see_the_request(queue, monkeypatch):
    """The stop may have ended before a busy machine lets `run` check again."""
    queue.handler(lambda job: job.payload)
    started = threading.Event()

    class Unseen(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            started.set()
            super().wait(0.01)
            return False

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Event", Unseen)
        worker = Worker(queue)
    running = threading.Thread(target=worker.run)
    running.start()
    assert started.wait(TIMEOUT)

    worker.stop()

    running.join(TIMEOUT)
    assert not running.is_alive()


def test_a_worker_is_not_started_twice(queue):
    queue.handler(lambda job: None)
    worker = Worker(queue)
    worker.start()
    with pytest.raises(ConfigError, match="running"):
        worker.start()
    worker.stop()


def test_a_stopped_worker_can_be_started_again(queue):
    queue.handler(lambda job: job.payload)
    worker = Worker(queue)
    for number in range(2):
        worker.start()
        assert queue.enqueue_and_wait(number, timeout=TIMEOUT) == number
        worker.stop()
