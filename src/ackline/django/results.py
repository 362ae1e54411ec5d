"""Jobs as Django shows them: the results of tasks."""

from __future__ import annotations

import datetime
import re
from typing import Any

from django.tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django.utils.module_loading import import_string

from ackline.core.job import Failure, State
from ackline.queue import Job

STATUSES = {
    State.SCHEDULED: TaskResultStatus.READY,
    State.QUEUED: TaskResultStatus.READY,
    State.FAILING: TaskResultStatus.READY,
    State.PROCESSING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}


def task_of(job: Job) -> Any:
    """The task that a job calls; raises `ImportError` if there is none of this name."""
    task = import_string(job.kind)
    if not isinstance(task, Task):
        raise ImportError(f"{job.kind} is not a task of Django: decorate it with @task")
    return task.using(queue_name=job.queue, run_after=_moment(job.record.run_at))


def task_result(job: Job, backend: str) -> Any:
    """The result of a task, as its job is now."""
    record = job.record
    starts = [each.started_at for each in job.history if each.started_at]
    if record.started_at is not None:
        starts.append(record.started_at)
    workers = [each.worker for each in job.history if each.worker]
    if len(workers) < record.attempts:
        workers.append(record.worker)
    result = TaskResult(
        task=task_of(job),
        id=job.id,
        status=STATUSES[job.state],
        enqueued_at=job.created_at,
        started_at=_moment(min(starts, default=None)),
        last_attempted_at=_moment(max(starts, default=None)),
        finished_at=job.finished_at,
        args=job.payload["args"],
        kwargs=job.payload["kwargs"],
        backend=backend,
        errors=[
            TaskError(exception_class_path=_exception_path(each), traceback=each.traceback)
            for each in job.history
            if each.type
        ],
        worker_ids=workers,
    )
    if job.state is State.COMPLETED:
        set_field(result, "_return_value", job.result)
    return result


def set_field(result: Any, name: str, value: Any) -> None:
    """Set a field of a result, which Django freezes and then changes in this way itself."""
    object.__setattr__(result, name, value)


def _exception_path(failure: Failure) -> str:
    """The import path of an exception, which is the last line of its traceback."""
    found = re.findall(rf"^([\w.]+\.)?{failure.type}(?::|$)", failure.traceback, re.MULTILINE)
    return f"{(found and found[-1]) or 'builtins.'}{failure.type}"


def _moment(timestamp: float | None) -> datetime.datetime | None:
    if timestamp is None:
        return None
    return datetime.datetime.fromtimestamp(timestamp, tz=datetime.UTC)
