"""Calls of tasks."""

from dataclasses import dataclass
from typing import Any, assert_type

import ackline
from ackline import App, AsyncTask, Completed, Duplicate, NewJob, Queued, Task

app = App()


@dataclass
class Image:
    path: str


@app.task
def resize(image: Image, width: int = 100) -> Image:
    return Image(f"{image.path}.{width}")


@app.task(queue="email", max_attempts=5, backoff=[1, 5, 30], timeout=60, priority=3)
async def welcome(to: str, template: str = "plain") -> int:
    return len(to + template)


@app.task()
def with_job(
    n: int, *, job: ackline.Job = ackline.current_job(), db: Image = ackline.resource()
) -> str:
    return job.id + db.path * n


@app.task
async def without_result() -> None: ...


@app.task
def may_retry(n: int) -> int | ackline.Retry:
    return n if n else ackline.Retry(30)


# --- what a task is ---

assert_type(resize(Image("a")), Image)
assert_type(resize.app, App)
named: AsyncTask[[], None] = without_result
wrong_kind: Task[[], None] = without_result  # error


async def call_directly() -> None:
    assert_type(await welcome("ann"), int)
    assert_type(await without_result(), None)
    assert_type(with_job(1, db=Image("a")), str)
    await resize(Image("a"))  # error
    welcome("ann").upper()  # error


# --- enqueue ---

assert_type(resize.enqueue(Image("a")), Queued | Duplicate | Completed)
resize.enqueue(Image("a"), 200)
resize.enqueue(image=Image("a"), width=200)
with_job.enqueue(1)
without_result.enqueue()

resize.enqueue()  # error
resize.enqueue("a.png")  # error
resize.enqueue(Image("a"), "200")  # error
resize.enqueue(Image("a"), 200, 300)  # error
resize.enqueue(picture=Image("a"))  # error
resize.enqueue(Image("a"), widht=200)  # error
welcome.enqueue(to=1)  # error
welcome.enqueue("ann", priority=3)  # error
without_result.enqueue(1)  # error
with_job.enqueue(1, db="not a database")  # error
resize.enqueue(Image("a")).result  # error
resize.enqueu(Image("a"))  # error

match welcome.enqueue("ann"):
    case Queued(id=id):
        assert_type(id, str)
    case Duplicate(state=state):
        assert_type(state, ackline.State)
    case Completed(result=result):
        print(result)

# --- call, result ---

assert_type(resize.call(Image("a")), Image)
assert_type(welcome.call("ann"), int)
assert_type(without_result.call(), None)
assert_type(welcome.result("w-1", 5), int)

resize.call(Image("a")).width  # error
resize.call(path="a")  # error
welcome.call("ann").upper()  # error
length: str = welcome.call("ann")  # error
welcome.result(1)  # error

# --- options ---

assert_type(resize.options(id="r-1", delay=300).call(Image("a")), Image)
welcome.options(id="w-1", delay=300, priority=8, headers={"a": "b"}).enqueue("ann")
welcome.options(wait=10).call("ann")
welcome.options(connection=object()).enqueue("ann")
resize.options(backoff=ackline.exponential(1)).options(group="g").enqueue(Image("a"))

welcome.options(dealy=300)  # error
welcome.options(kind="other")  # error
welcome.options(id=1)  # error
welcome.options(delay="soon")  # error
welcome.options(headers={"a": 1})  # error
welcome.options("w-1")  # error
welcome.options(id="w-1").enqueue(too="ann")  # error

# --- enqueue_many ---

for receipt in welcome.enqueue_many([{"to": "ann"}, {"to": "bob"}]):
    assert_type(receipt, Queued | Duplicate | Completed)
resize.enqueue_many({"image": Image(name)} for name in ("a", "b"))
welcome.enqueue_many([NewJob({"to": "ann"}, id="a", delay=5)])

welcome.enqueue_many({"to": "ann"})  # error
welcome.enqueue_many(["ann"])  # error
welcome.enqueue_many([NewJob({"to": "ann"}, dealy=5)])  # error


# --- asyncio ---


async def from_asyncio() -> None:
    assert_type(await welcome.aio.enqueue("ann"), Queued | Duplicate | Completed)
    assert_type(await welcome.aio.call("ann"), int)
    assert_type(await resize.aio.call(Image("a")), Image)
    assert_type(await resize.options(wait=3).aio.call(Image("a")), Image)
    assert_type(await welcome.aio.result("w-1"), int)
    assert_type(
        await welcome.aio.enqueue_many([{"to": "ann"}]), list[Queued | Duplicate | Completed]
    )
    await welcome.aio.enqueue(1)  # error
    await welcome.aio.enqueue(too="ann")  # error
    await welcome.aio.call("ann", "plain", "more")  # error
    (await welcome.aio.call("ann")).upper()  # error
    welcome.aio.call("ann").upper()  # error
    welcome.aio.options(id="w-1")  # error


# --- results that may be an outcome ---

assert_type(may_retry(1), int | ackline.Retry)

# --- what a task tells about itself ---

assert_type(welcome.kind, str)
assert_type(welcome.queue_name, str)
assert_type(welcome.app, App)
assert_type(welcome.queue, ackline.Queue[Any, Any])
