"""`app.testing()`: an app's jobs in a test."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest

import ackline
from ackline import App, State
from ackline.core.errors import InvalidArguments
from tests.app.conftest import RunningWorker


class Person(pydantic.BaseModel):
    name: str


def make_app() -> tuple[App, list[str]]:
    app, log = App(), list[str]()

    @app.lifespan
    async def resources() -> AsyncIterator[dict[str, Any]]:
        log.append("opened")
        yield {"db": asyncio.get_running_loop()}
        log.append("closed")

    @app.task(kind="welcome", queue="email")
    async def welcome(to: str, copies: int = 1, *, db: Any = ackline.resource()) -> None:
        log.append(f"welcome {to} {'loop' if db is asyncio.get_running_loop() else db}")

    @app.task(kind="sign-up")
    def sign_up(person: Person, on: datetime.date | None = None) -> str:
        welcome.enqueue(to=person.name)
        return person.name

    return app, log


def test_jobs_run_when_the_test_says_so() -> None:
    app, log = make_app()
    sign_up, welcome = app.tasks["sign-up"], app.tasks["welcome"]

    with app.testing() as jobs:
        sign_up.enqueue(Person(name="ann"), on=datetime.date(2027, 1, 1))
        assert log == []
        drained = jobs.drain()
        jobs.assert_enqueued(welcome, to="ann")

    assert drained.runs == 2
    assert drained["completed"] == 2
    assert log == ["opened", "welcome ann loop", "closed"]


def test_enqueued_jobs_are_asserted_by_their_arguments() -> None:
    app, log = make_app()
    sign_up, welcome = app.tasks["sign-up"], app.tasks["welcome"]

    with app.testing() as jobs:
        sign_up.options(id="1").enqueue(Person(name="ann"), on=datetime.date(2027, 1, 1))

        [job] = jobs.assert_enqueued(sign_up, person=Person(name="ann"))
        assert (job.id, job.state) == ("1", State.QUEUED)
        jobs.assert_enqueued(sign_up, on=datetime.date(2027, 1, 1))
        jobs.assert_enqueued(sign_up)
        jobs.refute_enqueued(sign_up, person=Person(name="bob"))
        jobs.refute_enqueued(welcome)
        with pytest.raises(AssertionError, match=r"no job of sign-up\(person=.*bob.*\) was"):
            jobs.assert_enqueued(sign_up, person=Person(name="bob"))
        with pytest.raises(AssertionError, match="1 jobs of sign-up"):
            jobs.refute_enqueued(sign_up)
        with pytest.raises(InvalidArguments, match="no argument 'persom'"):
            jobs.assert_enqueued(sign_up, persom=1)
    assert log == []


def test_resources_are_replaced_by_fakes() -> None:
    app, log = make_app()

    with app.testing(resources={"db": "fake"}) as jobs:
        app.tasks["welcome"].enqueue(to="ann")
        jobs.drain()

    assert log == ["welcome ann fake"]


def test_jobs_run_inline() -> None:
    app, log = make_app()

    with app.testing(resources={"db": "fake"}, inline=True):
        app.tasks["sign-up"].enqueue(Person(name="ann"))
        assert log == ["welcome ann fake"]


async def test_jobs_run_inline_in_an_async_test() -> None:
    app, log = make_app()

    with app.testing(resources={"db": "fake"}, inline=True):
        await app.tasks["sign-up"].aio.enqueue(Person(name="ann"))
        assert await app.tasks["sign-up"].aio.call(Person(name="bob")) == "bob"
    assert log == ["welcome ann fake", "welcome bob fake"]


def test_the_clock_moves_on_to_later_jobs() -> None:
    app = App()
    runs = []

    @app.task(max_attempts=3, backoff=60)
    def fail() -> None:
        runs.append(jobs.clock.now())
        raise ValueError

    with app.testing() as jobs:
        start = jobs.clock.now()
        fail.options(delay=3600).enqueue()
        assert jobs.drain().runs == 0
        jobs.clock.advance(3600)
        assert jobs.drain().runs == 1
        assert jobs.drain(until_idle=True)["failed"] == 1

    assert [now - start for now in runs] == [3600, 3660, 3720]


def test_an_open_app_is_as_before_after_the_block(app: App) -> None:
    @app.task
    def work(n: int) -> int:
        return n

    with app.open():
        before = app.queues
        with app.testing() as jobs:
            work.enqueue(1)
            assert app.queues is jobs.queues
        assert app.queues is before
        with RunningWorker(app):
            assert work.call(2) == 2
    with app.testing() as jobs:
        jobs.refute_enqueued(work)


def test_an_app_that_the_tested_program_opens_is_the_one_in_memory() -> None:
    app, _ = make_app()

    with app.testing() as jobs:
        with app.open("sqlite:///never-created.db"):
            app.tasks["welcome"].enqueue(to="ann")
            assert app.queues is jobs.queues
        jobs.assert_enqueued(app.tasks["welcome"], to="ann")


def test_schedules_tick_by_the_clock() -> None:
    app = App()

    @app.every(datetime.timedelta(minutes=5))
    def sync() -> None: ...

    with app.testing() as jobs:
        assert jobs.drain().runs == 0
        jobs.clock.advance(300)
        assert jobs.drain()["completed"] == 1
        jobs.assert_enqueued(sync)
