"""Handlers that are registered while a worker runs."""

from __future__ import annotations

from typing import Any

import pytest

from ackline import ConfigError
from tests.waiting import TIMEOUT


def run(job: Any) -> Any:
    return job.payload


async def run_async(job: Any) -> Any:
    return job.payload


@pytest.mark.parametrize(
    ("early", "late", "sort"), [(run, run_async, "async"), (run_async, run, "sync")]
)
def test_a_handler_of_the_other_kind_is_refused_on_a_running_worker(
    queue, start, early, late, sort
):
    queue.handler("early")(early)
    worker = start(queue)
    with pytest.raises(ConfigError, match=sort):
        queue.handler("late")(late)
    assert queue.handlers.kinds == {"early"}
    assert queue.enqueue_and_wait(1, kind="early", timeout=TIMEOUT) == 1

    worker.stop()
    queue.handler("late")(late)
    worker.start()
    assert queue.enqueue_and_wait(2, kind="late", timeout=TIMEOUT) == 2


@pytest.mark.parametrize("function", [run, run_async])
def test_control_others_run(queue, start, function):
    queue.handler("early")(function)
    start(queue)
    queue.handler("late")(function)
    assert queue.enqueue_and_wait(2, kind="late", timeout=TIMEOUT) == 2
