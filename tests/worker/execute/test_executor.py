"""Jobs that are interrupted before their handlers start."""

from __future__ import annotations

import queue as queues_of_threads
from collections.abc import Iterator
from typing import Any

import pytest

from ackline import Queue, StopReason
from ackline.core.events import Act
from ackline.core.lifecycle import Transition
from ackline.worker.execute.async_executor import AsyncExecutor
from ackline.worker.execute.executor import Executor, ExecutorContext
from ackline.worker.execute.handler_loop import OwnLoop
from ackline.worker.execute.thread_executor import ThreadExecutor
from ackline.worker.hooks import NO_HOOKS
from ackline.worker.leased_jobs import LeasedJob
from ackline.worker.timers import Timers
from tests.waiting import TIMEOUT


class ExecutorFixture:
    """An executor by itself, with one handler, and the outcomes that it hands in."""

    def __init__(self, queue: Queue[Any, Any], executor: type[Executor]) -> None:
        self.queue = queue
        self.called: list[str] = []
        self.outcomes = queues_of_threads.SimpleQueue[Transition]()
        self._loop = OwnLoop()
        context = ExecutorContext(self._settle, NO_HOOKS, Timers(), lambda: None)
        self.executor: Executor
        if executor is AsyncExecutor:
            self.executor = AsyncExecutor(1, context, self._loop)
            queue.handler(self._run_async)
        else:
            self.executor = ThreadExecutor(1, context)
            queue.handler(self._run)

    def start(self) -> None:
        self._loop.start()
        self.executor.start()

    def stop(self) -> None:
        self.executor.stop()
        self._loop.stop()

    def _run(self, job: Any) -> None:
        self.called.append(job.id)

    async def _run_async(self, job: Any) -> None:
        self.called.append(job.id)

    def _settle(self, leased: LeasedJob, transition: Transition) -> None:
        if leased.mark_settling():
            self.outcomes.put(transition)

    def leased(self, id: str) -> LeasedJob:
        self.queue.enqueue(1, id=id)
        [job] = self.queue.claim(worker="w")
        record, handler = job.record, self.queue.handlers["default"]
        return LeasedJob(self.queue, record, handler, self.queue.policies.of(record))

    def next_outcome(self) -> tuple[str, Act]:
        transition = self.outcomes.get(timeout=TIMEOUT)
        return transition.id, transition.act


@pytest.fixture(params=[ThreadExecutor, AsyncExecutor])
def executor_fixture(
    queue: Queue[Any, Any], request: pytest.FixtureRequest
) -> Iterator[ExecutorFixture]:
    executor_fixture = ExecutorFixture(queue, request.param)
    yield executor_fixture
    executor_fixture.stop()


def test_a_job_interrupted_before_it_starts_is_released(
    executor_fixture: ExecutorFixture,
) -> None:
    """As for a lease that could not be extended; otherwise it would stay leased forever."""
    first, second = executor_fixture.leased("first"), executor_fixture.leased("second")
    executor_fixture.executor.interrupt(first, StopReason.LEASE_LOST)
    executor_fixture.executor.submit([first, second])
    executor_fixture.executor.interrupt(first, StopReason.LEASE_LOST)
    executor_fixture.start()

    outcomes = [executor_fixture.next_outcome(), executor_fixture.next_outcome()]

    assert outcomes == [("first", Act.RELEASE), ("second", Act.COMPLETE)]
    assert executor_fixture.called == ["second"]


def test_a_job_interrupted_once_it_is_submitted_is_settled(
    executor_fixture: ExecutorFixture,
) -> None:
    leased = executor_fixture.leased("a")
    executor_fixture.start()

    executor_fixture.executor.submit([leased])
    executor_fixture.executor.interrupt(leased, StopReason.LEASE_LOST)

    id, act = executor_fixture.next_outcome()
    assert id == "a"
    assert act in {Act.RELEASE, Act.COMPLETE, Act.FAIL}
