"""What a type checker knows of a program: it is mypy that runs these tests.

An `assert_type` that does not hold, and a comment that ignores an error which is none, are errors.
"""

from __future__ import annotations

import dataclasses
from typing import Any, assert_type

import pytest

import ackline
import ackline.aio
from ackline import Job, Queue
from ackline.aio import AsyncQueue
from ackline.queue import Enqueued


@dataclasses.dataclass
class Email:
    to: str


def test_a_queue_has_the_types_that_it_was_declared_with() -> None:
    queues = ackline.open("memory://")
    assert_type(queues.queue("q", payload=Email, result=str), Queue[Email, str])
    assert_type(queues.queue("q", payload=Email), Queue[Email, Any])
    assert_type(queues.queue("q", result=list[int], serde="msgpack"), Queue[Any, list[int]])
    assert_type(queues.queue("q", max_payload=10), Queue[Any, Any])
    assert_type(queues["q"], Queue[Any, Any])
    assert_type(queues.queue("q", payload=Email | None), Queue[Any, Any])


def test_what_goes_in_and_comes_out() -> None:
    emails = ackline.open("memory://").queue("email", payload=Email, result=str)
    assert_type(emails.enqueue(Email("ann"), id="a"), Enqueued)
    [job] = emails.claim()
    assert_type(job, Job[Email])
    assert_type(job.payload, Email)
    emails.complete(job, "sent")
    assert_type(emails.result("a"), str)
    assert [assert_type(job, Job[Email]).id for job in emails.jobs()] == ["a"]


def test_a_payload_or_result_of_another_type_is_found() -> None:
    emails = ackline.open("memory://").queue("email", payload=Email, result=str)
    with pytest.raises(ackline.InvalidPayload):
        emails.enqueue("ann")  # type: ignore[arg-type]
    emails.enqueue(Email("ann"))
    [job] = emails.claim()
    with pytest.raises(ackline.InvalidPayload):
        emails.complete(job, 5)  # type: ignore[arg-type]


def test_an_option_that_nobody_knows_is_found() -> None:
    queues = ackline.open("memory://")
    with pytest.raises(TypeError, match="max_payloads"):
        queues.queue("email", max_payloads=5)  # type: ignore[call-overload]


def test_the_same_for_asyncio() -> None:
    def check(queues: ackline.aio.AsyncQueues) -> None:
        assert_type(queues.queue("q", payload=Email, result=str), AsyncQueue[Email, str])
        assert_type(queues.queue("q", result=int), AsyncQueue[Any, int])
        assert_type(queues["q"], AsyncQueue[Any, Any])

    check(ackline.aio.AsyncQueues(ackline.open("memory://")))
