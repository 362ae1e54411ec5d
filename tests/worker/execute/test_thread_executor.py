"""Threads are counted only if they were started."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ackline import Queue
from ackline.worker.execute.executor import ExecutorContext
from ackline.worker.execute.thread_executor import ThreadExecutor
from ackline.worker.hooks import NO_HOOKS
from ackline.worker.leased_jobs import LeasedJob
from ackline.worker.timers import Timers
from tests.waiting import TIMEOUT


class ThreadLimit:
    """A system at its thread limit, until the limit is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full, self.refused = True, threading.Event()
        really_start = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if self.full and "ackline handlers " in thread.name:
                self.refused.set()
                raise RuntimeError("can't start new thread")
            really_start(thread)

        monkeypatch.setattr(threading.Thread, "start", start)


def test_a_thread_that_cannot_be_started_is_started_later(
    queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran = threading.Event()
    queue.handler(lambda _job: ran.set())
    queue.enqueue(1)
    [job] = queue.claim()
    leased = LeasedJob(queue, job.record, queue.handlers["default"], queue.policies.of(job.record))
    executor = ThreadExecutor(1, ExecutorContext(lambda *_: None, NO_HOOKS, Timers(), lambda: None))
    executor.start()
    system = ThreadLimit(monkeypatch)

    executor.submit([leased])
    system.refused.clear()
    assert system.refused.wait(TIMEOUT)  # it is tried again, for the job waits
    assert executor.running_count == 0
    assert [record.message for record in caplog.records] == [
        "could not start thread 1 of 1 (can't start new thread): jobs wait for the running "
        "threads; raise the thread limit of the system, or lower the concurrency"
    ]
    system.full = False

    assert ran.wait(TIMEOUT)
    executor.stop()
