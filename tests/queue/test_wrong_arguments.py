"""What a newcomer may try is refused with a typed error that says what to pass, on both faces."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ackline import ConfigError, InvalidName, InvalidOption, Queues
from ackline.aio import AsyncQueue
from ackline.queues import queue_not_found_message

NAN = float("nan")
Try = Callable[..., None]
"""Calls a method of a queue, and expects it to be refused so."""


@pytest.fixture(params=["sync", "aio"])
def refused(request: pytest.FixtureRequest, queues: Queues) -> Iterator[Try]:
    queue = queues["email"]

    async def on_loop(name: str, *args: Any, **options: Any) -> None:
        async_queue = AsyncQueue(queue)
        try:
            answer = getattr(async_queue, name)(*args, **options)
            if inspect.isawaitable(answer):
                await answer
        finally:
            await async_queue.close()

    def call(name: str, *args: Any, **options: Any) -> None:
        if request.param == "sync":
            getattr(queue, name)(*args, **options)
        else:
            asyncio.run(on_loop(name, *args, **options))

    def refused(
        why: str, name: str, *args: Any, error: Any = InvalidOption, **options: Any
    ) -> None:
        with pytest.raises(error, match=why):
            call(name, *args, **options)

    yield refused
    assert list(queue.events()) == []


@pytest.mark.parametrize("given", ["some-id", None, {"id": "some-id"}])
@pytest.mark.parametrize(
    ("act", "more"),
    [
        ("complete", ()),
        ("fail", ("no",)),
        ("bury", ("no",)),
        ("snooze", (1,)),
        ("release", ()),
        ("extend", (1,)),
        ("report", (1,)),
    ],
)
def test_what_is_no_job_is_not_settled(refused: Try, act: str, more: Any, given: Any) -> None:
    refused("Job", act, given, *more)


@pytest.mark.parametrize("given", [None, 5, b"some-id", ["some-id"]])
@pytest.mark.parametrize("act", ["status", "result", "cancel", "redrive"])
def test_an_id_is_a_text(refused: Try, act: str, given: Any) -> None:
    refused(r"\bid\b", act, given, error=InvalidName)


def test_an_id_is_asked_for_where_a_job_is_given(queues: Queues) -> None:
    queue = queues["email"]
    queue.enqueue(1)
    [job] = queue.claim()
    acts: list[Any] = [queue.cancel, queue.status, queue.result, queue.redrive]
    for act in acts:
        with pytest.raises(InvalidName, match="pass its id"):
            act(job)


def test_what_an_act_by_id_needs(refused: Try) -> None:
    refused(r"\bid\b", "edit", 5, priority=1, error=InvalidName)
    refused(r"\bid\b", "move", 5, "other", error=InvalidName)
    refused(r"\bid\b", "keep_result", 5, 1, error=InvalidName)
    refused("seconds", "keep_result", "a", None)
    refused("Job", "edit", "a", priority=1, expected="a")
    refused("journal", "redrive", "a", by=5, error=InvalidName)


@pytest.mark.parametrize("timeout", [-1, NAN, "5", float("inf")])
def test_a_timeout_is_a_span_of_time(refused: Try, timeout: Any) -> None:
    refused("timeout", "result", "a", timeout)
    refused("timeout", "enqueue_and_wait", 1, timeout=timeout)


def test_spans_that_must_be_given(queues: Queues) -> None:
    queue = queues["email"]
    queue.enqueue(1)
    [job] = queue.claim()
    for act in (queue.snooze, queue.extend):
        with pytest.raises(InvalidOption, match="None"):
            act(job, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="5"):
        queue.fail(job, 5)  # type: ignore[arg-type]
    queue.complete(job)


def test_what_there_is_no_event_of(refused: Try) -> None:
    refused(r"\bcomplete\b", "on", "complted", print)
    refused("None", "on", None, print)
    refused("callback", "on", "completed", 5)


async def _note(_event: object) -> None: ...


@pytest.mark.parametrize("callback", [_note, functools.partial(_note)])
def test_a_thread_awaits_nothing(queues: Queues, callback: Any) -> None:
    with pytest.raises(InvalidOption, match=r"ackline\.aio"):
        queues["email"].on("completed", callback)


@pytest.mark.parametrize("given", [5, [5], [None], [["a"]]])
def test_names_are_texts(refused: Try, given: Any) -> None:
    refused("kinds", "claim", kinds=given)
    refused("kinds", "jobs", kinds=given)
    refused("states", "jobs", states=given)
    refused("kinds", "redrive_all", kinds=given)
    refused("ids", "purge", ids=given)


def test_what_is_looked_for(refused: Try) -> None:
    refused("created_after", "jobs", created_after="today")
    refused("created_before", "jobs", created_before=NAN)
    refused("text", "jobs", text=5, error=InvalidName)
    refused("cursor", "jobs", cursor=5, error=InvalidName)
    refused("follow_for", "events", follow_for=NAN)
    refused("follow_for", "events", follow_for="5")
    refused("rate", "redrive_all", rate="5")
    refused("wait", "claim", wait=None)
    refused("cron", "every", 5, error=InvalidName)


def test_a_cursor_is_that_of_a_page(queues: Queues) -> None:
    queues["email"].enqueue(1)
    with pytest.raises(InvalidOption, match=r"page\.cursor"):
        queues["email"].jobs(cursor="strange")


@pytest.mark.parametrize("kind", [5, None, ["mail"]])
def test_a_kind_is_a_text(refused: Try, kind: Any) -> None:
    refused("kind", "handler", kind, error=InvalidName)


@pytest.mark.parametrize("function", [lambda job, to: 1, eval("lambda job, *, to: 1")])
def test_a_handler_is_called_with_the_job_alone(queues: Queues, function: Any) -> None:
    queue = queues["email"]
    with pytest.raises(ConfigError, match=r"\bto\b"):
        queue.handler("mail")(function)
    queue.handler("mail")(functools.partial(function, to="ann"))


def test_options_count_also_where_the_handler_itself_is_given(queues: Queues) -> None:
    queue: Any = queues["email"]
    queue.handler(lambda job: None, max_attempts=7)
    assert queue.policies.settings().kinds["default"].max_attempts == 7
    with pytest.raises(TypeError, match="kind"):
        queue.handler(lambda job: None, kind="mail")


def test_what_a_handler_may_take_beside_the_job(queues: Queues) -> None:
    queues["email"].handler("mail")(lambda job, to="ann", *more, by="post", **options: 1)


def test_queues_need_a_store_and_a_name(queues: Queues) -> None:
    for url in ("memory://", Path("memory://")):
        with pytest.raises(ConfigError, match=r"ackline\.open\("):
            Queues(url)  # type: ignore[arg-type]
    with pytest.raises(InvalidName, match="tenant"):
        Queues(queues.store, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="max_payload"):
        queues.queue("email", max_payload="1 MB")  # type: ignore[call-overload]


def test_which_queues_there_are_is_told_to_who_mistypes_one(queues: Queues) -> None:
    assert "no queues yet" in queue_not_found_message(queues, "emial")
    for name in ("email", *map(str, range(10))):
        queues[name].enqueue(1)

    assert queue_not_found_message(queues, "emial").endswith(
        "has no queue 'emial'. Did you mean 'email'?"
    )
    message = queue_not_found_message(queues, "invoices")
    assert "There are '0', '1', '2'" in message
    assert message.endswith("'9', ….")
    assert "of tenant 'acme' has no" in queue_not_found_message(
        Queues(queues.store, "acme"), "email"
    )
