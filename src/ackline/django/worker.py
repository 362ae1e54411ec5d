"""What `manage.py ackline_worker` runs: the tasks of all of Ackline's backends."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import django
from django.tasks import TaskContext, TaskResultStatus, task_backends
from django.tasks.signals import task_finished, task_started
from django.utils import timezone
from django.utils.json import normalize_json

from ackline.app import App
from ackline.core.config import Policy
from ackline.core.errors import ConfigError, Stopped
from ackline.core.outcome import Outcome
from ackline.django.backend import AcklineBackend
from ackline.django.connections import fresh_connections
from ackline.django.results import set_field, task_of, task_result
from ackline.queue import Handler, Job, Queue


def app() -> App:
    """An app whose queues are those of the project's backends."""
    django.setup()
    return _Backends()


class _Backends(App):
    """The queues of all of Ackline's backends in TASKS."""

    def open_queues(self, names: Iterable[str] | None = None) -> list[Queue[Any, Any]]:
        backends = [each for each in task_backends.all() if isinstance(each, AcklineBackend)]
        if not backends:
            raise ConfigError("no backend in TASKS is ackline.django.backend.AcklineBackend")
        chosen = None if names is None else list(names)
        opened: list[Queue[Any, Any]] = []
        for backend in backends:
            for name in _names(backend, chosen):
                queue = backend.app.queues[name]
                if queue not in opened:
                    queue.handlers.register_fallback(_handler(backend, queue))
                    opened.append(queue)
        if not opened:
            names = " or ".join(map(repr, chosen or []))
            raise ConfigError(f"no backend in TASKS has queue {names}")
        return opened


def _names(backend: Any, chosen: list[str] | None) -> Iterator[str]:
    if backend.queues:
        yield from sorted(name for name in backend.queues if chosen is None or name in chosen)
    elif chosen is None:
        raise ConfigError(f"TASKS[{backend.alias!r}] allows every queue: name those to serve")
    else:
        yield from chosen


def _handler(backend: Any, queue: Queue[Any, Any]) -> Handler:
    return Handler(
        kind="*",
        function=functools.partial(run, backend.alias, queue),
        is_async=False,
        payload_type=Any,
        policy=Policy(),
    )


def run(alias: str, queue: Queue[Any, Any], job: Job) -> Any:
    """Run a task, with Django's signals, on connections that work."""
    with fresh_connections():
        task = task_of(job)
        # A claimed job does not bring its earlier attempts along.
        looked_up = queue.status(job.id) if task.takes_context else None
        result = task_result(looked_up or job, alias)
        task_started.send(AcklineBackend, task_result=result)
        context = [TaskContext(task_result=result)] if task.takes_context else []
        try:
            value = task.call(*context, *result.args, **result.kwargs)
            if isinstance(value, Outcome):
                return value
            value = normalize_json(value)
        except Stopped:
            raise
        except Exception:
            if job.attempt >= job.max_attempts:
                _finish(result, TaskResultStatus.FAILED)
            raise
        set_field(result, "_return_value", value)
        _finish(result, TaskResultStatus.SUCCESSFUL)
        return value


def _finish(result: Any, status: Any) -> None:
    set_field(result, "status", status)
    set_field(result, "finished_at", timezone.now())
    task_finished.send(AcklineBackend, task_result=result)
