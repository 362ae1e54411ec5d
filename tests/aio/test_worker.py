"""A worker on the event loop of the program that it is part of."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import ackline
from ackline import App, Job, LifespanFailed, StoreClosed
from ackline.aio import Worker
from ackline.worker.worker import WorkerOptions


@pytest.mark.every_store
async def test_handlers_run_on_the_loop_of_the_caller(url: str) -> None:
    app = App(url)
    loops: list[asyncio.AbstractEventLoop] = []

    @app.lifespan
    async def resources() -> AsyncIterator[dict[str, Any]]:
        loops.append(asyncio.get_running_loop())
        yield {"db": "pool"}
        loops.append(asyncio.get_running_loop())

    @app.task
    async def work(n: int, *, db: str = ackline.resource()) -> str:
        loops.append(asyncio.get_running_loop())
        return f"{db} {n}"

    @app.task
    def in_thread(n: int) -> int:
        return n

    async with app.open(), Worker(app):
        assert await asyncio.gather(*map(work.aio.call, range(3))) == [
            "pool 0",
            "pool 1",
            "pool 2",
        ]
        assert await in_thread.aio.call(7) == 7

    assert loops == [asyncio.get_running_loop()] * 5


async def test_serve_finishes_the_running_jobs_when_it_is_cancelled(url: str) -> None:
    async with ackline.aio.open(url) as queues:
        queue = queues["work"]
        started, finish = asyncio.Event(), asyncio.Event()

        @queue.handler
        async def work(job: Job[Any]) -> str:
            started.set()
            await finish.wait()
            return "finished"

        await queue.enqueue(1, id="1")
        serving = asyncio.create_task(Worker(queue).serve())
        await started.wait()
        serving.cancel()
        await asyncio.sleep(0)
        finish.set()
        with pytest.raises(asyncio.CancelledError):
            await serving

        assert await queue.result("1") == "finished"


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_worker_that_is_cancelled_while_it_starts_is_not_left_running(
    url: str, hangs: bool
) -> None:
    opening, closed = asyncio.Event(), asyncio.Event()

    async def lifespan() -> AsyncIterator[None]:
        try:
            opening.set()
            await asyncio.sleep(600 if hangs else 0.1)
            yield
        finally:
            closed.set()

    others = set(threading.enumerate())
    async with ackline.aio.open(url) as queues:

        @queues["work"].handler
        async def work(job: Job[Any]) -> None: ...

        serving = asyncio.create_task(Worker(queues["work"], lifespan=lifespan).serve())
        await opening.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

        assert closed.is_set()
        left = {thread.name for thread in set(threading.enumerate()) - others}
        assert not {name for name in left if "claims" in name or "promoter" in name}


async def test_a_second_cancellation_does_not_wait(url: str) -> None:
    async with ackline.aio.open(url) as queues:
        queue = queues["work"]
        started = asyncio.Event()

        @queue.handler
        async def work(job: Job[Any]) -> None:
            started.set()
            await asyncio.Event().wait()

        await queue.enqueue(1, id="1")
        worker = Worker(queue, grace=600)
        await worker.start()
        await started.wait()
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0.2)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping

        job = await queue.status("1")
        assert job is not None
        assert (job.state, job.attempt) == (ackline.State.QUEUED, 0)


async def test_serve_raises_what_stopped_the_worker(url: str) -> None:
    app = App(url)

    @app.task
    async def work() -> None: ...

    app.open()
    serving = asyncio.create_task(Worker(app).serve())
    await asyncio.sleep(0.2)
    await app.aclose()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(serving, 20)


async def test_a_lifespan_that_fails_is_raised_to_the_caller(url: str) -> None:
    async def lifespan() -> AsyncIterator[None]:
        if url:
            raise OSError("no such host")
        yield

    async with ackline.aio.open(url) as queues:

        @queues["work"].handler
        async def work(job: Job[Any]) -> None: ...

        with pytest.raises(LifespanFailed):
            await Worker(queues["work"], lifespan=lifespan).serve()


def test_the_options_are_those_of_the_blocking_worker() -> None:
    parameters = inspect.signature(ackline.Worker.__init__).parameters
    assert WorkerOptions.__annotations__.keys() == parameters.keys() - {"self", "queues"}
