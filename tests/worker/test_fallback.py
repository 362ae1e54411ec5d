"""A handler of all kinds that have none of their own."""

from __future__ import annotations

from typing import Any

import pytest

from ackline.core.config import Policy
from ackline.queue import Handler
from ackline.testing import drain
from tests.waiting import TIMEOUT


def fallback() -> Handler:
    return Handler(
        kind="*",
        function=lambda job: f"fallback: {job.kind}",
        is_async=False,
        payload_type=Any,
        policy=Policy(),
    )


@pytest.mark.every_store
def test_it_runs_the_kinds_that_have_no_handler(queue, start):
    queue.handler("own")(lambda job: "own")
    queue.handlers.register_fallback(fallback())
    start(queue)

    assert queue.enqueue_and_wait(1, kind="own", timeout=TIMEOUT) == "own"
    assert queue.enqueue_and_wait(1, kind="new", timeout=TIMEOUT) == "fallback: new"
    assert queue.enqueue_and_wait(1, kind="newer", timeout=TIMEOUT) == "fallback: newer"


def test_it_is_enough_for_a_worker_and_for_tests(queue):
    queue.handlers.register_fallback(fallback())
    queue.enqueue(1, id="a", kind="any")

    drain(queue)

    assert queue.result("a") == "fallback: any"
