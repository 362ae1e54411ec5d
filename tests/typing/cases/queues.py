"""Queues: payloads, results, jobs, outcomes."""

from pathlib import Path
from typing import Any, TypedDict, assert_type

import ackline
from ackline import Completed, Duplicate, Job, NewJob, Queue, Queued
from ackline.aio import AsyncQueue


class Email(TypedDict):
    to: str


queues = ackline.open("sqlite:///jobs.db", tenant="shop")
ackline.open(Path("jobs.db"))
ackline.open(1)  # error
ackline.open("memory://", tennant="shop")  # error
ackline.open()  # error

untyped = queues["email"]
assert_type(untyped, Queue[Any, Any])
queue = queues.queue("email", payload=Email, result=int)
assert_type(queue, Queue[Email, int])
assert_type(queues.queue("email", payload=Email), Queue[Email, Any])
queues.queue("email", paylod=Email)  # error
bare: Queue = queue

# --- producing ---

assert_type(queue.enqueue({"to": "ann"}), Queued | Duplicate | Completed)
queue.enqueue({"to": "ann"}, id="e-1", delay=5, priority=9, kind="welcome")
queue.enqueue_many([{"to": "ann"}, NewJob[Email]({"to": "bob"}, id="b")])
assert_type(queue.enqueue_and_wait({"to": "ann"}, timeout=5), int)
assert_type(queue.result("e-1"), int)

queue.enqueue({"too": "ann"})  # error
queue.enqueue("ann")  # error
queue.enqueue({"to": "ann"}, dealy=5)  # error
queue.enqueue({"to": "ann"}, delay="5")  # error
queue.enqueue_many(["ann"])  # error
queue.enqueue_and_wait({"to": "ann"}).upper()  # error
queue.enqueue_and_wait({"to": "ann"}, wait=5)  # error

# --- handling ---


@queue.handler
def welcome(job: Job[Email]) -> int:
    assert_type(job.payload, Email)
    assert_type(job.attempt, int)
    assert_type(job.resources["db"], Any)
    job.payload["too"]  # error
    job.paylod  # error
    return len(job.payload["to"])


@queue.handler("other", max_attempts=3)
async def other(job: Job[Email]) -> ackline.Snooze:
    return ackline.Snooze(5)


assert_type(welcome(next(iter(queue.claim()))), int)


@queue.handler("third", max_atempts=3)  # error
def third(job: Job[Email]) -> None: ...


ackline.Snooze()  # error
ackline.Retry("soon")  # error
ackline.Cancel(5)  # error

# --- claiming and operating ---

for job in queue.claim(10, kinds=["welcome"]):
    assert_type(job, Job[Email])
    queue.complete(job, 1)
queue.claim("10")  # error
queue.complete("e-1")  # error

# --- asyncio ---


async def from_asyncio() -> None:
    async with ackline.aio.open("memory://") as queues:
        queue = queues.queue("email", payload=Email, result=int)
        assert_type(queue, AsyncQueue[Email, int])
        assert_type(await queue.enqueue({"to": "ann"}), Queued | Duplicate | Completed)
        assert_type(await queue.enqueue_and_wait({"to": "ann"}), int)
        await queue.enqueue("ann")  # error
        await queue.enqueue({"to": "ann"}, dealy=5)  # error
        for job in await queue.claim():
            assert_type(job, Job[Email])
        queue.enqueue({"to": "ann"}).id  # error
