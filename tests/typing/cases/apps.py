"""Definitions: tasks with settings, schedules, resources, middleware, hooks."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, assert_type

import ackline
from ackline import App, EnqueueRequest, Job, Task

App("sqlite:///jobs.db", tenant="shop", include=["shop.email"])
App(url=1)  # error
App(tennant="shop")  # error
App(include=[1])  # error

app = App()

# --- settings ---


@app.task(quee="email")  # error
def misspelled() -> None: ...


@app.task(max_attempts="5")  # error
def wrong_attempts() -> None: ...


@app.task(backoff="slowly")  # error
def wrong_backoff() -> None: ...


@app.task("email")  # error
def positional() -> None: ...


@app.task(kind="send", lease=30, result_ttl=60.0, backoff=ackline.fixed(1))
def right() -> None: ...


assert_type(right, Task[[], None])


# --- schedules ---


@app.every("0 7 * * *", tz="Europe/Berlin", queue="reports")
def report() -> int:
    return 1


@app.every("@daily", arguments={"full": True}, name="nightly", catch_up="all")
@app.task(queue="reports")
async def clean(full: bool = False) -> None: ...


assert_type(report, Task[[], int])
assert_type(report.call(), int)
clean.enqueue(full=True)
clean.enqueue(full="yes")  # error


@app.every(5)  # error
def wrong_cron() -> None: ...


@app.every("@daily", timezone="UTC")  # error
def wrong_option() -> None: ...


@app.every("@daily", catch_up="never")  # error
def wrong_catch_up() -> None: ...


@app.every  # error
def bare() -> None: ...


# --- resources ---


@app.lifespan
async def resources() -> AsyncIterator[dict[str, Any]]:
    yield {"db": 1}


@App().lifespan
def sync_resources() -> Iterator[None]:
    yield


@App().lifespan  # error
def not_a_generator() -> dict[str, Any]:
    return {}


@App().lifespan  # error
def with_argument(app: App) -> Iterator[None]:
    yield


@App().lifespan  # error
def yields_no_dict() -> Iterator[int]:
    yield 1


# --- middleware ---


@app.middleware
def timed(job: Job, call_next: Callable[[], Any]) -> Any:
    return call_next()


@app.middleware
async def traced(job: Job[Any], call_next: Callable[[], Awaitable[Any]]) -> object:
    return await call_next()


@app.middleware  # error
def without_next(job: Job[Any]) -> Any: ...


@app.middleware  # error
def of_another_job(job: str, call_next: Callable[[], Any]) -> Any: ...


# --- enqueue hooks ---


@app.on_enqueue
def add_user(request: EnqueueRequest) -> None:
    request.options["headers"] = {"user": "ann"}
    request.arguments["n"] = 1
    assert_type(request.task.kind, str)


@app.on_enqueue  # error
def without_request() -> None: ...


@app.on_enqueue  # error
async def asynchronous(request: EnqueueRequest) -> None: ...


@app.on_enqueue  # error
def of_a_job(request: Job[Any]) -> None: ...


# --- opening ---

with app.open("sqlite:///jobs.db") as opened:
    assert_type(opened, App)
assert_type(app.open(token="secret").__enter__(), App)
app.open(1)  # error
app.open(durability="full")  # error


async def within_asyncio() -> None:
    async with app.open() as opened:
        assert_type(opened, App)
    async with ackline.aio.Worker(app, concurrency=4) as worker:
        assert_type(worker, ackline.aio.Worker)
        await worker.serve()
    ackline.aio.Worker(app, concurency=4)  # error
    ackline.aio.Worker("email")  # error


# --- workers ---

ackline.Worker(app, concurrency=4, grace=5).run()
ackline.Worker(app, concurrency="4")  # error
ackline.Worker(app, concurency=4)  # error
ackline.Worker("shop:app")  # error
