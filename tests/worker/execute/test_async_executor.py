"""The event loop of async handlers: none of them takes it from the others."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from ackline import HandlersHang, State
from ackline.worker import Worker
from tests.waiting import TIMEOUT


async def exit_soon() -> None:
    await asyncio.sleep(0.01)
    sys.exit(1)


async def exit_in_a_task(job):
    with pytest.raises(SystemExit):
        await asyncio.create_task(exit_soon())
    return "went on"


async def interrupt_in_a_callback(job):
    def interrupt() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(interrupt)
    await asyncio.sleep(0.01)
    return "went on"


async def stop_the_loop(job):
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return "went on"


@pytest.mark.parametrize("handler", [exit_in_a_task, interrupt_in_a_callback, stop_the_loop])
def test_a_handler_that_ends_the_loop_ends_neither_its_job_nor_others(
    queue, start, caplog, handler
):
    queue.handler("rude", max_attempts=1)(handler)

    @queue.handler("good")
    async def good(job):
        await asyncio.sleep(0.05)
        return job.payload

    queue.enqueue("beside", kind="good", id="beside")
    start(queue)
    assert queue.enqueue_and_wait(1, kind="rude", timeout=TIMEOUT) == "went on"
    assert queue.result("beside", timeout=TIMEOUT) == "beside"
    assert queue.enqueue_and_wait("after", kind="good", timeout=TIMEOUT) == "after"
    assert "was restarted" in caplog.text


def test_a_broken_event_loop_stops_the_worker_which_releases_its_jobs(queue, caplog, monkeypatch):
    monkeypatch.setattr("ackline.worker.heartbeat.HEARTBEAT_INTERVAL", 0.05)
    monkeypatch.setattr("ackline.worker.worker.INTERRUPT_SECONDS", 0.05)

    @queue.handler
    async def break_the_loop(job):
        def broken() -> None:
            raise OSError("Bad file descriptor")

        monkeypatch.setattr(asyncio.get_running_loop(), "_run_once", broken)
        await asyncio.sleep(60)

    queue.enqueue_many(range(10))
    with pytest.raises(HandlersHang):
        Worker(queue, concurrency=2, grace=0.1).run()
    assert "Bad file descriptor" in caplog.text
    assert queue.counts()[State.QUEUED] == 10
    assert {job.attempt for job in queue.jobs().jobs} == {0}


def test_tasks_started_by_handlers_are_cancelled_at_the_stop(queue):
    cancelled = threading.Event()

    async def left_behind() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    tasks = set()

    @queue.handler
    async def leave(job):
        tasks.add(asyncio.create_task(left_behind()))
        await asyncio.sleep(0)

    worker = Worker(queue)
    worker.start()
    queue.enqueue_and_wait(1, timeout=TIMEOUT)
    worker.stop()
    assert cancelled.is_set()


def test_blocking_calls_share_a_few_threads_that_no_process_waits_for(queue, start):
    def where() -> threading.Thread:
        time.sleep(0.001)
        return threading.current_thread()

    @queue.handler
    async def block(job):
        recorded = await asyncio.gather(*(asyncio.to_thread(where) for _ in range(100)))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return [len(set(recorded)) <= 40, all(thread.daemon for thread in recorded)]

    start(queue)
    assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == [True, True]
    assert queue.enqueue_and_wait(2, timeout=TIMEOUT) == [True, True]


def test_the_threads_of_blocking_calls_end_with_the_worker(queue):
    threads = []

    @queue.handler
    async def block(job):
        threads.append(await asyncio.to_thread(threading.current_thread))

    worker = Worker(queue)
    worker.start()
    queue.enqueue_and_wait(1, timeout=TIMEOUT)
    worker.stop()
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
