"""Handlers that never stop: a worker with too many of them stops, instead of hanging."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ackline import HandlersHang, State
from ackline.worker import Worker
from tests.waiting import TIMEOUT


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    for module in ("execute.executor", "execute.async_executor", "queue_runner"):
        monkeypatch.setattr(f"ackline.worker.{module}.STOP_TIMEOUT", 0.05)
    monkeypatch.setattr("ackline.worker.execute.thread_executor.MAX_HUNG_FACTOR", 2)
    monkeypatch.setattr("ackline.worker.heartbeat.HEARTBEAT_INTERVAL", 0.1)


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def run_until_it_ends(worker: Worker) -> BaseException | None:
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            worker.run()
            ended.append(None)
        except HandlersHang as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    assert ended, "it still runs"
    return ended[0]


def test_a_worker_with_too_many_hung_handlers_stops(queue, go_on, caplog):
    ran = []

    @queue.handler(timeout=0.05, max_attempts=1)
    def hang(job):
        ran.append(job.id)
        go_on.wait(60)

    queue.enqueue_many(range(10))
    error = run_until_it_ends(Worker(queue, concurrency=1, grace=1.0))
    assert isinstance(error, HandlersHang)
    assert "'work' hang" in str(error)
    assert caplog.text.count("is stopping: too many handlers") == 1
    # One, and two that took its slot: no more may hang.
    assert len(ran) == 3
    counts = queue.counts()
    assert (counts[State.FAILED], counts[State.QUEUED]) == (3, 7)
    assert {job.attempt for job in queue.jobs(states=["queued"]).jobs} == {0}


def test_a_handler_that_blocks_the_event_loop_stops_the_worker(queue, go_on):
    @queue.handler(timeout=0.05, max_attempts=1)
    async def block(job):
        go_on.wait(1.5)

    queue.enqueue(1, id="a")
    worker = Worker(queue, concurrency=1, grace=0.1)
    assert isinstance(run_until_it_ends(worker), HandlersHang)
    assert queue.status("a").state is State.FAILED


def test_control_a_worker_with_fewer_hung_handlers_goes_on(queue, go_on, start):
    @queue.handler(timeout=0.05, max_attempts=1)
    def hang_twice(job):
        if job.payload == "hang":
            go_on.wait(60)
        return "done"

    for number in range(2):
        queue.enqueue("hang", id=f"hang-{number}")
    start(queue, concurrency=1)
    assert queue.enqueue_and_wait("fine", timeout=TIMEOUT) == "done"
    time.sleep(0.3)  # some heartbeats later
    assert queue.enqueue_and_wait("fine", timeout=TIMEOUT) == "done"


def test_a_worker_that_stopped_can_be_started_again(queue, go_on):
    @queue.handler(timeout=0.05, max_attempts=1)
    def hang(job):
        if job.payload == "hang":
            go_on.wait(60)
        return "done"

    queue.enqueue_many(["hang"] * 3)
    worker = Worker(queue, concurrency=1, grace=1.0)
    assert run_until_it_ends(worker)
    trouble = worker.error
    assert isinstance(trouble, HandlersHang)
    worker.start()
    assert worker.error is None
    assert queue.enqueue_and_wait("fine", timeout=TIMEOUT) == "done"
    worker.stop()
