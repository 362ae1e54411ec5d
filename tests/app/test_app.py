"""An app: what it opens and when, and what it runs around its tasks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ackline
from ackline import App, Cancel, ConfigError, Job, JobCancelled, JobFailed, Worker
from ackline.stores.memory import MemoryStore
from tests.app.conftest import RunningWorker


def test_nothing_is_opened_by_defining_tasks(tmp_path: Path) -> None:
    app = App(tmp_path / "jobs.db")

    @app.task
    def work() -> None: ...

    assert list(tmp_path.iterdir()) == []
    work.enqueue()
    assert list(tmp_path.iterdir()) != []
    app.close()


def test_the_store_is_that_of_open_then_the_variable_then_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(tmp_path / "app.db")

    def location() -> str:
        return app.queues.info().location

    with app.open():
        assert "app.db" in location()
    monkeypatch.setenv("ACKLINE_STORE", f"sqlite:///{tmp_path}/variable.db")
    with app.open():
        assert "variable.db" in location()
    with app.open(tmp_path / "open.db"):
        assert "open.db" in location()


def test_an_existing_store_or_client_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKLINE_STORE", "sqlite:///not-used.db")
    store = MemoryStore()
    app = App(store=store)

    @app.task
    def work() -> None: ...

    with app.open():
        work.enqueue()
        assert app.queues.store is store
    with ackline.open(store) as queues:
        assert queues["default"].counts()[ackline.State.QUEUED] == 1


def test_an_app_takes_a_url_or_a_store() -> None:
    with pytest.raises(ConfigError, match="pass url or store"):
        App("memory://", store=MemoryStore())


def test_an_app_without_a_store_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACKLINE_STORE", raising=False)
    with pytest.raises(ConfigError, match="ACKLINE_STORE"):
        App().open()


def test_an_open_app_is_not_opened_again(app: App) -> None:
    @app.task
    def work() -> None: ...

    work.enqueue()  # opens it
    queues = app.queues
    with app.open():
        assert app.queues is queues
    assert app.queues is queues
    with pytest.raises(ConfigError, match="open already"):
        app.open("memory://")
    app.close()
    with app.open() as opened:
        assert opened is app
        assert app.queues is not queues


async def test_an_app_is_opened_within_asyncio(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    async with app.open():
        await work.aio.enqueue(1)
        assert len(await app.aio["default"].claim()) == 1


def test_tasks_that_are_defined_after_opening_are_served_too(app: App) -> None:
    with app.open():

        @app.task
        def late(n: int) -> int:
            return n

        with RunningWorker(app):
            assert late.call(3) == 3


def test_a_worker_serves_the_named_queues_of_an_app(app: App) -> None:
    for name in ("a", "b"):
        app.task(queue=name, kind=name)(lambda: None)

    assert [queue.name for queue in app.open_queues()] == ["a", "b"]
    assert [queue.name for queue in app.open_queues(["b"])] == ["b"]
    with pytest.raises(ConfigError, match="no task in queue 'c'; its queues are a, b"):
        app.open_queues(["c"])


def test_a_worker_needs_tasks(app: App) -> None:
    with pytest.raises(ConfigError, match="no tasks"):
        Worker(app)


def test_a_worker_serves_one_app_or_queues(app: App) -> None:
    app.task(lambda: None)
    with pytest.raises(ConfigError, match="one app"):
        Worker(app, app.queues["other"])


def test_modules_of_an_app_are_imported_by_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "included_app.py").write_text(
        "import ackline\napp = ackline.App('memory://', include=['included_tasks'])\n"
    )
    (tmp_path / "included_tasks.py").write_text(
        "from included_app import app\n@app.task(queue='late')\ndef work(): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from included_app import app  # type: ignore[import-not-found]

    assert [queue.name for queue in app.open_queues()] == ["late"]
    app.close()
    with pytest.raises(ConfigError, match="include"):
        App(include="included_tasks")


@pytest.mark.parametrize("command", [["shop.py"], ["-m", "shop"], ["-c", "import shop"]])
def test_a_script_names_its_tasks_as_a_worker_does(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "shop.py").write_text(
        "import ackline\n"
        "app = ackline.App('memory://')\n"
        "@app.task\n"
        "def pay(): ...\n"
        "print(pay.kind)\n"
    )
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "shop.pay\n"


# --- resources ---


def test_resources_are_passed_to_parameters(app: App) -> None:
    @app.lifespan
    async def resources() -> AsyncIterator[dict[str, Any]]:
        yield {"db": "pool", "loop": asyncio.get_running_loop()}

    @app.task
    async def on_loop(
        n: int,
        *,
        job: Job[Any] = ackline.current_job(),
        db: str = ackline.resource(),
        same: asyncio.AbstractEventLoop = ackline.resource("loop"),
    ) -> list[Any]:
        return [n, job.attempt, db, asyncio.get_running_loop() is same, job.resources["db"]]

    @app.task
    def in_thread(*, db: str = ackline.resource()) -> str:
        return db

    with RunningWorker(app):
        assert on_loop.call(7) == [7, 1, "pool", True, "pool"]
        assert in_thread.call() == "pool"


def test_a_resource_that_the_lifespan_does_not_yield_is_missed_at_the_start(app: App) -> None:
    @app.lifespan
    def resources() -> Iterator[dict[str, Any]]:
        yield {"cache": 1}

    @app.task
    def work(*, db: Any = ackline.resource()) -> None: ...

    with pytest.raises(ConfigError, match=r"work needs the resource 'db'.*yields 'cache'"):
        Worker(app).start()


def test_a_direct_call_passes_resources_itself(app: App) -> None:
    @app.task
    def work(n: int, *, db: Any = ackline.resource()) -> Any:
        return n, db

    assert work(1, db="fake") == (1, "fake")
    with pytest.raises(TypeError, match="'db': pass it yourself"):
        work(1)


def test_an_app_has_one_lifespan(app: App) -> None:
    @app.lifespan
    def one() -> Iterator[None]:
        yield

    with pytest.raises(ConfigError, match="has a lifespan already"):

        @app.lifespan
        def two() -> Iterator[None]:
            yield

    with pytest.raises(ConfigError, match="must be a function without arguments"):
        App().lifespan(lambda: None)  # type: ignore[type-var]


# --- middleware ---


def test_the_first_middleware_is_the_outermost(app: App) -> None:
    order: list[str] = []

    @app.middleware
    def outer(job: Job[Any], call_next: Callable[[], Any]) -> Any:
        order.append(f"outer {job.kind}")
        result = call_next()
        order.append("outer ends")
        return result + 1

    @app.middleware
    def inner(job: Job[Any], call_next: Callable[[], Any]) -> Any:
        order.append("inner")
        return call_next() * 2

    @app.task(kind="work")
    def work(n: int) -> int:
        return n

    with RunningWorker(app):
        assert work.call(5) == 11
    assert order == ["outer work", "inner", "outer ends"]


def test_async_middleware_is_around_async_tasks_alone(app: App) -> None:
    @app.middleware
    async def plus_one(job: Job[Any], call_next: Callable[[], Awaitable[Any]]) -> Any:
        return await call_next() + 1

    @app.task
    async def on_loop(n: int) -> int:
        return n

    @app.task
    def in_thread(n: int) -> int:
        return n

    with RunningWorker(app):
        assert on_loop.call(5) == 6
        assert in_thread.call(5) == 5


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_worker_warns_of_middleware_for_tasks_that_the_app_does_not_have(
    app: App, caplog: pytest.LogCaptureFixture, sort: str
) -> None:
    def plain(job: Any = None, call_next: Any = None) -> None: ...

    async def on_loop(job: Any = None, call_next: Any = None) -> None: ...

    app.task(kind="work")(on_loop if sort == "sync" else plain)
    app.middleware(plain if sort == "sync" else on_loop)
    Worker(app)
    [warning] = caplog.messages
    assert f"for {sort} tasks, and the app has none" in warning


def test_a_worker_does_not_warn_of_middleware_for_some_of_the_tasks(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.middleware
    async def trace(job: Job[Any], call_next: Callable[[], Awaitable[Any]]) -> Any:
        return await call_next()

    @app.task
    async def on_loop() -> None: ...

    @app.task
    def in_thread() -> None: ...

    Worker(app)
    assert caplog.messages == []


def test_middleware_that_forgets_the_task_fails_the_attempt(app: App) -> None:
    ran = []

    @app.middleware
    def forgetful(job: Job[Any], call_next: Callable[[], Any]) -> None: ...

    @app.middleware
    async def also_forgetful(job: Job[Any], call_next: Callable[[], Any]) -> None: ...

    @app.task(max_attempts=1)
    def in_thread() -> None:
        ran.append("sync")

    @app.task(max_attempts=1)
    async def on_loop() -> None:
        ran.append("async")

    with RunningWorker(app):
        for task in (in_thread, on_loop):
            with pytest.raises(JobFailed, match="forgetful returned without"):
                task.call()
    assert ran == []


def test_middleware_may_skip_a_task_by_an_outcome(app: App) -> None:
    @app.middleware
    def switched_off(job: Job[Any], call_next: Callable[[], Any]) -> Any:
        return Cancel("switched off")

    @app.task
    def work() -> None: ...

    with RunningWorker(app), pytest.raises(JobCancelled):
        work.call()


def test_middleware_is_added_before_the_app_opens(app: App) -> None:
    with app.open(), pytest.raises(ConfigError, match="before the app opens"):

        @app.middleware
        def late(job: Job[Any], call_next: Callable[[], Any]) -> Any: ...
