"""Django's tasks as jobs; they are in Django 6, which needs Python 3.12."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

import ackline
from ackline.core.job import State
from tests.django.conftest import RunningWorker
from tests.waiting import until


def finished(result: Any) -> bool:
    result.refresh()
    return bool(result.is_finished)


@pytest.mark.every_store
def test_a_task_is_enqueued_and_run_and_its_result_read(shop: Any) -> None:
    result = shop.add.enqueue(1, b=2)
    assert (result.status, result.args, result.kwargs) == ("READY", [1], {"b": 2})
    assert shop.add.get_result(result.id).status == "READY"

    with RunningWorker():
        until(lambda: finished(result))

    assert (result.status, result.return_value) == ("SUCCESSFUL", 3)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.started_at == result.last_attempted_at
    assert (result.attempts, len(result.errors)) == (1, 0)


async def test_an_async_task_is_enqueued_within_asyncio(shop: Any) -> None:
    result = await shop.add_async.aenqueue(1, 2)

    worker = RunningWorker("slow")
    with worker:
        while not result.is_finished:
            await result.arefresh()

    assert (await shop.add_async.aget_result(result.id)).return_value == 3


def test_a_failed_task_has_its_errors(shop: Any) -> None:
    result = shop.fail.enqueue("wrong")

    with RunningWorker():
        until(lambda: finished(result))

    assert (result.status, result.attempts) == ("FAILED", 2)
    assert [error.exception_class for error in result.errors] == [ackline.InvalidJob] * 2
    assert "wrong" in result.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        result.return_value  # noqa: B018


def test_a_task_with_context_knows_its_attempt(shop: Any) -> None:
    result = shop.second_attempt.enqueue()

    with RunningWorker():
        until(lambda: finished(result))

    assert result.return_value == [2, result.id]
    assert [error.exception_class for error in result.errors] == [ValueError]


def test_a_result_that_is_no_json_fails_the_task(
    store_url: str, configure: Callable[..., None]
) -> None:
    configure(store_url, max_attempts=1)
    from tests.django import shop_tasks

    result = shop_tasks.returns_no_json.enqueue()
    with RunningWorker():
        until(lambda: finished(result))

    assert [error.exception_class for error in result.errors] == [TypeError]


def test_a_task_may_return_an_outcome(shop: Any) -> None:
    result = shop.cancel.enqueue()

    with RunningWorker():
        until(lambda: finished(result))

    assert result.status == "FAILED"


def test_a_task_runs_when_it_is_due(shop: Any) -> None:
    due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)

    result = shop.add.using(run_after=due).enqueue(1)

    job = jobs(shop)["default"].status(result.id)
    assert job.state is State.SCHEDULED
    assert job.record.run_at == pytest.approx(due.timestamp())
    assert shop.add.get_result(result.id).task.run_after == due


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(0, 5), (1, 6), (25, 6), (26, 7), (100, 9), (-1, 4), (-20, 4), (-21, 3), (-100, 0)],
)
def test_a_priority_becomes_one_of_ten(shop: Any, priority: int, expected: int) -> None:
    result = shop.add.using(priority=priority).enqueue(1)

    assert jobs(shop)["default"].status(result.id).priority == expected


def test_a_queue_must_be_one_of_the_backend(shop: Any) -> None:
    from django.tasks.exceptions import InvalidTask

    with pytest.raises(InvalidTask, match="other"):
        shop.add.using(queue_name="other")


def test_the_worker_serves_the_named_queues(shop: Any) -> None:
    slow, other = shop.add.using(queue_name="slow").enqueue(1), shop.add.enqueue(1)

    with RunningWorker("slow"):
        until(lambda: finished(slow))

    other.refresh()
    assert other.status == "READY"


def test_results_of_other_tasks_and_unknown_ids_are_refused(shop: Any) -> None:
    from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result("unknown")
    with pytest.raises(TaskResultMismatch):
        shop.fail.get_result(shop.add.enqueue(1).id)


def test_arguments_must_be_json(shop: Any) -> None:
    with pytest.raises(TypeError):
        shop.add.enqueue(object())

    assert sum(jobs(shop)["default"].counts().values()) == 0


def test_options_are_checked_when_they_are_given(
    store_url: str, configure: Callable[..., None]
) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.tasks import task, task_backends

    configure(store_url)
    with pytest.raises(ackline.AcklineError, match="max_attempts"):
        task(max_attempts=0)(len_of)
    configure(store_url, urll="memory://")
    with pytest.raises(ImproperlyConfigured, match="urll"):
        task_backends["default"]


def len_of(text: str) -> int:
    return len(text)


def test_a_task_that_is_gone_fails_with_its_name(
    shop: Any, store_url: str, configure: Callable[..., None]
) -> None:
    queue = jobs(shop)["default"]
    queue.enqueue({"args": [], "kwargs": {}}, id="gone", kind="tests.django.gone", max_attempts=1)

    with RunningWorker():
        until(lambda: queue.status("gone").state is State.FAILED)

    assert "tests.django" in queue.status("gone").error.message


def test_signals_are_sent(shop: Any) -> None:
    from django.tasks.signals import task_enqueued, task_finished, task_started

    seen: list[tuple[str, str]] = []

    def receiver(name: str) -> Any:
        def receive(sender: Any, task_result: Any, **_others: Any) -> None:
            seen.append((name, str(task_result.status)))

        return receive

    receivers = [
        (signal, receiver(name))
        for signal, name in (
            (task_enqueued, "enqueued"),
            (task_started, "started"),
            (task_finished, "finished"),
        )
    ]
    for signal, receive in receivers:
        signal.connect(receive)
    try:
        shop.fail.enqueue("wrong")
        with RunningWorker():
            until(lambda: len(seen) == 4)
    finally:
        for signal, receive in receivers:
            signal.disconnect(receive)

    assert seen == [
        ("enqueued", "READY"),
        ("started", "RUNNING"),
        ("started", "RUNNING"),
        ("finished", "FAILED"),
    ]


def jobs(shop: Any) -> Any:
    return shop.add.get_backend().app.queues
