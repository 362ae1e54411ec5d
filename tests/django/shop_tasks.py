"""The tasks of a project; imported when its settings are made."""

from __future__ import annotations

from typing import Any

from django.tasks import task

import ackline

ran: list[Any] = []


@task
def add(a: int, b: int = 1) -> int:
    ran.append((a, b))
    return a + b


@task(queue_name="slow")
async def add_async(a: int, b: int) -> int:
    return a + b


@task(max_attempts=2, backoff=0)
def fail(message: str) -> None:
    raise ackline.InvalidJob(message)


@task(takes_context=True, max_attempts=2, backoff=0)
def second_attempt(context: Any) -> list[Any]:
    if context.attempt == 1:
        raise ValueError("once more")
    return [context.attempt, context.task_result.id]


@task
def returns_no_json() -> object:
    return object()


@task
def cancel() -> Any:
    return ackline.Cancel("not needed")
