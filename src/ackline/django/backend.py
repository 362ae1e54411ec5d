"""A backend of `django.tasks`, which are in Django 6 and newer."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskResult, TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone
from django.utils.json import normalize_json

from ackline.app import App
from ackline.core.errors import StoreMismatch
from ackline.core.limits import DEFAULT_PRIORITY, Seconds
from ackline.core.retry import Backoff
from ackline.django.results import task_result
from ackline.queue import Queue
from ackline.queue.handlers import handler_policy
from ackline.queue.produce import Enqueued

POLICY = ("max_attempts", "backoff", "timeout", "lease", "result_ttl")
"""The options that `@task` and OPTIONS take for jobs."""

OPTIONS = frozenset({"url", "tenant", "database", *POLICY})


@dataclass(frozen=True, slots=True, kw_only=True)
class AcklineTask(Task):  # type: ignore[misc]
    """A task that may have options of its own, as in `@task(max_attempts=5, backoff=[1, 5])`."""

    max_attempts: int | None = None
    backoff: Backoff | Sequence[float] | float | None = None
    timeout: Seconds | None = None
    lease: Seconds | None = None
    result_ttl: Seconds | None = None


class AcklineBackend(BaseTaskBackend):  # type: ignore[misc]
    """Enqueues tasks as jobs; `manage.py ackline_worker` runs them.

    TASKS = {
        "default": {
            "BACKEND": "ackline.django.backend.AcklineBackend",
            "OPTIONS": {"url": "postgresql:///shop", "max_attempts": 5},
        }
    }
    """

    task_class = AcklineTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := self.options.keys() - OPTIONS:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]: unknown OPTIONS {', '.join(sorted(unknown))}; "
                f"there are {', '.join(sorted(OPTIONS))}"
            )
        self._database: str | None = self.options.get("database", "default")
        self._policy = {name: self.options[name] for name in POLICY if name in self.options}

    @property
    def app(self) -> App:
        """The app whose store the jobs are in; all threads share it."""
        return app_at(self.options.get("url"), self.options.get("tenant"))

    def validate_task(self, task: Any) -> None:
        super().validate_task(task)
        handler_policy(**{name: getattr(task, name, None) for name in POLICY})

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.validate_task(task)
        payload = {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))}
        queue = self.app.queues[task.queue_name]
        answer = self._enqueue(queue, payload, self._options_of(task))
        result = TaskResult(
            task=task,
            id=answer.id,
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=payload["args"],
            kwargs=payload["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        queues = self.app.queues
        for name in sorted(self.queues or queues):
            job = queues[name].status(result_id)
            if job is not None:
                return task_result(job, self.alias)
        raise TaskResultDoesNotExist(result_id)

    def _enqueue(self, queue: Queue[Any, Any], payload: Any, options: dict[str, Any]) -> Enqueued:
        if self._database is None or not queue.store.capabilities.joins_transactions:
            return queue.enqueue(payload, **options)
        connection = connections[self._database]
        if connection.vendor != "postgresql" or not connection.in_atomic_block:
            return queue.enqueue(payload, **options)
        try:
            return queue.enqueue(payload, connection=connection, **options)
        except StoreMismatch as error:
            raise ImproperlyConfigured(
                f"TASKS[{self.alias!r}]: a task that is enqueued in a transaction of database "
                f"{self._database!r} is part of it, but the jobs are elsewhere ({error}); name "
                "the database that has them in OPTIONS['database'], or None to enqueue at once"
            ) from error

    def _options_of(self, task: Any) -> dict[str, Any]:
        own = {name: getattr(task, name, None) for name in POLICY}
        options: dict[str, Any] = {
            **self._policy,
            **{name: value for name, value in own.items() if value is not None},
            "kind": task.module_path,
            "priority": job_priority(task.priority),
        }
        if task.run_after is not None:
            naive = timezone.is_naive(task.run_after)
            options["run_at"] = timezone.make_aware(task.run_after) if naive else task.run_after
        return options


@functools.cache
def app_at(url: str | None, tenant: str | None) -> App:
    """The app of a store; Django makes a backend for each thread, and they share it."""
    return App(url, tenant=tenant)


def job_priority(priority: int) -> int:
    """Django's priority, -100 to 100, as one of a job, 0 to 9."""
    step = 25 if priority > 0 else 20
    # Rounded away from 0, so that a priority above the default stays above it.
    rounded = -(-abs(priority) // step)
    return DEFAULT_PRIORITY + (rounded if priority > 0 else -rounded)
