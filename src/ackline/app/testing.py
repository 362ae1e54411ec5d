"""An app in a test: its jobs stay in memory, and run when the test says so."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ackline.app.task import BaseTask
from ackline.core.clock import ManualClock
from ackline.core.job import State
from ackline.maintenance.scheduler import Scheduler
from ackline.queue import Job, Queue
from ackline.testing.modes import (
    Drained,
    Runtime,
    advance_to_next,
    all_jobs,
    drain,
    inline,
    list_jobs,
    memory_queues,
)
from ackline.worker.execute.handler_loop import OwnLoop
from ackline.worker.lifespan import Lifespan

if TYPE_CHECKING:
    from ackline.app.app import App


class AppTest:
    """Runs an app's jobs within a test, and asserts which jobs there are."""

    def __init__(self, app: App, resources: Mapping[str, Any] | None) -> None:
        self.clock = ManualClock()
        """The clock of the store: it stands still unless it is moved."""
        self.queues = memory_queues(self.clock)
        self._app = app
        self._loop = OwnLoop()
        self._lifespan: Lifespan | None = None
        self._schedulers: dict[Queue[Any, Any], Scheduler] = {}
        self._runtime = None if resources is None else Runtime(resources, self._loop.run)

    def drain(self, *, until_idle: bool = False, raise_errors: bool = False) -> Drained:
        """Run all jobs that are due; with `until_idle` the clock moves on to those that are later.

        Schedules whose tick has come by the clock enqueue their jobs first.

        >>> jobs.drain()["completed"]  # doctest: +SKIP
        1
        """
        runs, states = 0, Counter[State]()
        while True:
            self._tick()
            drained = [
                drain(queue, raise_errors=raise_errors, runtime=self.runtime)
                for queue in self._queues()
            ]
            for each in drained:
                runs += each.runs
                states.update(each.states)
            if not any(each.runs for each in drained) and not (
                until_idle and advance_to_next(self._queues(), self.clock)
            ):
                return Drained(runs, states)

    def assert_enqueued(self, task: BaseTask[..., Any], /, **arguments: Any) -> list[Job[Any]]:
        """Fail unless a job of the task has these arguments, in any state; returns all that do.

        >>> jobs.assert_enqueued(welcome, to="ann@example.com")  # doctest: +SKIP
        """
        found, others = self._find(task, arguments)
        if not found:
            raise AssertionError(
                f"no job of {_call(task, arguments)} was enqueued.{list_jobs(others)}"
            )
        return found

    def refute_enqueued(self, task: BaseTask[..., Any], /, **arguments: Any) -> None:
        """Fail if a job of the task has these arguments, in any state."""
        found, _ = self._find(task, arguments)
        if found:
            raise AssertionError(
                f"{len(found)} jobs of {_call(task, arguments)} were enqueued.{list_jobs(found)}"
            )

    def runtime(self) -> Runtime:
        """The resources of its handlers and their loop; the lifespan is entered when first used."""
        if self._runtime is None:
            function = self._app.lifespan_function
            resources: Mapping[str, Any] = {}
            if function is not None:
                self._lifespan = Lifespan(function)
                resources = self._lifespan.enter(self._loop)
            self._runtime = Runtime(resources, self._loop.run)
        return self._runtime

    @contextlib.contextmanager
    def running(self, *, run_inline: bool) -> Iterator[None]:
        """Have the app use the store in memory; at the end, close what the lifespan has opened."""
        self._loop.start()
        try:
            self._app.use(self.queues)
            self._tick()  # schedules begin now
            with contextlib.ExitStack() as stack:
                if run_inline:
                    queues = self._queues()
                    stack.enter_context(inline(*queues, runtime=self.runtime))
                yield
        finally:
            if self._lifespan is not None:
                self._lifespan.exit(self._loop)
            self._loop.stop()

    def _tick(self) -> None:
        for queue in self._queues():
            if queue.schedules and queue not in self._schedulers:
                self._schedulers[queue] = Scheduler(queue, queue.schedules)
        for queue, scheduler in self._schedulers.items():
            scheduler.maintain(queue)

    def _queues(self) -> list[Queue[Any, Any]]:
        names = {task.queue_name for task in self._app.tasks.values()}
        return [self.queues[name] for name in sorted(names)]

    def _find(
        self, task: BaseTask[..., Any], arguments: Mapping[str, Any]
    ) -> tuple[list[Job[Any]], list[Job[Any]]]:
        """The jobs that match, and all jobs of the task."""
        queue = self.queues[task.queue_name]
        jobs = [job for job in all_jobs(queue) if job.kind == task.kind]
        wanted = msgspec.to_builtins(task.arguments.pack_some(arguments), str_keys=True)
        return [job for job in jobs if _has(job, wanted)], jobs


def _has(job: Job[Any], wanted: Mapping[str, Any]) -> bool:
    stored = msgspec.json.decode(job.record.payload)
    return all(name in stored and stored[name] == value for name, value in wanted.items())


def _call(task: BaseTask[..., Any], arguments: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{task.kind}({given})"
