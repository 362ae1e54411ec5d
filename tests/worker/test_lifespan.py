"""A worker's resources: opened before its first claim, closed after its last handler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import ackline
from ackline import ConfigError, LifespanFailed, Queue, Worker


def run_job(queue: Queue[Any, Any], worker: Worker) -> None:
    """Run one job in a worker that starts and stops."""
    worker.start()
    try:
        queue.enqueue_and_wait(1, id="1")
    finally:
        worker.stop()


def test_an_async_lifespan_runs_on_the_loop_of_the_handlers(queue: Queue[Any, Any]) -> None:
    recorded: list[Any] = []

    async def lifespan() -> AsyncIterator[dict[str, Any]]:
        recorded.append(asyncio.get_running_loop())
        yield {"pool": "open"}
        recorded.append(asyncio.get_running_loop())

    @queue.handler
    async def handle(job: ackline.Job[Any]) -> None:
        recorded.append((asyncio.get_running_loop(), job.resources["pool"]))

    run_job(queue, Worker(queue, lifespan=lifespan))

    opened, (handled, pool), closed = recorded
    assert opened is handled is closed
    assert pool == "open"


def test_a_sync_lifespan_opens_and_closes_in_the_thread_of_the_worker(
    queue: Queue[Any, Any],
) -> None:
    recorded: list[Any] = []

    def lifespan() -> Iterator[dict[str, Any]]:
        recorded.append(threading.current_thread())
        yield {"db": "open"}
        recorded.append(threading.current_thread())

    @queue.handler
    def handle(job: ackline.Job[Any]) -> None:
        recorded.append(job.resources["db"])

    run_job(queue, Worker(queue, lifespan=lifespan))

    assert recorded == [threading.current_thread(), "open", threading.current_thread()]


def test_a_worker_whose_lifespan_fails_does_not_start(queue: Queue[Any, Any]) -> None:
    async def lifespan() -> AsyncIterator[None]:
        if queue.name:
            raise OSError("no such host")
        yield

    @queue.handler
    async def handle(job: ackline.Job[Any]) -> None: ...

    with pytest.raises(LifespanFailed, match="no such host"):
        Worker(queue, lifespan=lifespan).start()

    queue.enqueue(1)
    assert len(queue.claim()) == 1


def test_a_lifespan_that_fails_to_close_does_not_break_the_shutdown(
    queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    def lifespan() -> Iterator[None]:
        yield
        raise OSError("broken pipe")

    queue.handler(lambda job: job.id)

    run_job(queue, Worker(queue, lifespan=lifespan))

    assert queue.result("1") == "1"
    assert "failed to close" in caplog.text


@pytest.mark.parametrize("wrong", [lambda: None, "lifespan", lambda app: (yield)])
def test_only_a_generator_function_without_arguments_is_a_lifespan(
    queue: Queue[Any, Any], wrong: Any
) -> None:
    queue.handler(lambda job: None)
    with pytest.raises(ConfigError, match="lifespan"):
        Worker(queue, lifespan=wrong)


def test_a_lifespan_yields_a_dict(queue: Queue[Any, Any]) -> None:
    def lifespan() -> Iterator[Any]:
        yield ["pool"]

    queue.handler(lambda job: None)
    with pytest.raises(ConfigError, match="dict"):
        Worker(queue, lifespan=lifespan).start()


def test_a_worker_that_starts_again_opens_its_resources_again(queue: Queue[Any, Any]) -> None:
    opened: list[int] = []

    async def lifespan() -> AsyncIterator[dict[str, int]]:
        opened.append(len(opened))
        yield {"n": len(opened)}

    queue.handler(lambda job: job.resources["n"])
    worker = Worker(queue, lifespan=lifespan)

    for id in "ab":
        worker.start()
        assert queue.enqueue_and_wait(1, id=id) == len(opened)
        worker.stop()
    assert opened == [0, 1]


def test_async_handlers_of_all_queues_share_a_loop() -> None:
    loops = set()
    with ackline.open("memory://") as queues:
        for name in ("a", "b"):

            @queues[name].handler
            async def handle(job: ackline.Job[Any]) -> None:
                loops.add(asyncio.get_running_loop())

        worker = Worker(queues["a"], queues["b"])
        worker.start()
        try:
            for name in ("a", "b"):
                queues[name].enqueue_and_wait(1)
        finally:
            worker.stop()
    assert len(loops) == 1


def test_a_worker_whose_lifespan_hangs_can_be_stopped(queue: Queue[Any, Any]) -> None:
    hanging = threading.Event()

    async def lifespan() -> AsyncIterator[None]:
        hanging.set()
        await asyncio.Event().wait()
        yield

    @queue.handler
    async def handle(job: ackline.Job[Any]) -> None: ...

    worker = Worker(queue, lifespan=lifespan)

    def stop() -> None:
        assert hanging.wait(10)
        worker.request_stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(LifespanFailed, match="asked to stop"):
        worker.run()
    stopper.join()


def test_a_second_request_ends_the_wait_for_resources_that_do_not_close(
    queue: Queue[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    hanging = threading.Event()

    async def lifespan() -> AsyncIterator[None]:
        yield
        hanging.set()
        await asyncio.Event().wait()

    @queue.handler
    async def handle(job: ackline.Job[Any]) -> None: ...

    worker = Worker(queue, lifespan=lifespan)
    worker.start()
    stopping = threading.Thread(target=worker.stop, daemon=True)
    stopping.start()
    assert hanging.wait(10)
    worker.request_stop()
    stopping.join(10)
    assert not stopping.is_alive()
    assert "failed to close its resources" in caplog.text
