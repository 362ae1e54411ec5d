"""Functions around each handler."""

from __future__ import annotations

import logging
import threading

import pytest

from ackline import JobFailed, State
from ackline.worker import Hooks
from ackline.worker.execute import executor
from tests.waiting import TIMEOUT, until


def test_an_after_hook_can_change_the_result_and_its_ttl(queue, start):
    def shout(job, execution):
        execution.result = execution.result.upper()
        execution.result_ttl = 7

    queue.handler(lambda job: "quiet")
    start(queue, hooks=Hooks(after=[shout]))

    assert queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT) == "QUIET"
    record = queue.status("a").record
    assert record.expires_at - record.finished_at == pytest.approx(7)


def test_an_after_hook_can_turn_an_error_into_a_result(queue, start):
    def forgive(job, execution):
        if isinstance(execution.error, KeyError):
            execution.error, execution.result = None, "forgiven"

    @queue.handler(max_attempts=1)
    def broken(job):
        raise KeyError("x")

    start(queue, hooks=Hooks(after=[forgive]))
    assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == "forgiven"


def test_an_after_hook_can_turn_a_result_into_an_error(queue, start):
    def judge(job, execution):
        execution.error = ValueError("not good enough")

    queue.handler("default", max_attempts=1)(lambda job: "fine")
    start(queue, hooks=Hooks(after=[judge]))
    with pytest.raises(JobFailed, match="not good enough"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)


def test_a_before_hook_that_raises_fails_the_attempt_and_the_handler_does_not_run(queue, start):
    ran: list[object] = []

    def refuse(job):
        raise PermissionError(f"{job.id} may not run")

    queue.handler("default", max_attempts=1)(ran.append)
    start(queue, hooks=Hooks(before=[refuse]))
    with pytest.raises(JobFailed, match="a may not run"):
        queue.enqueue_and_wait(1, id="a", timeout=TIMEOUT)
    assert ran == []


def test_an_after_hook_that_raises_fails_the_attempt(queue, start, caplog):
    def clumsy(job, execution):
        raise ZeroDivisionError("in the hook")

    queue.handler("default", max_attempts=1)(lambda job: 1)
    start(queue, hooks=Hooks(after=[clumsy]))
    with pytest.raises(JobFailed, match="in the hook"):
        queue.enqueue_and_wait(1, timeout=TIMEOUT)
    [error] = until(lambda: [entry for entry in caplog.records if entry.levelno == logging.ERROR])
    assert error.exc_info is not None
    assert error.exc_info[0] is ZeroDivisionError


def test_an_after_hook_that_raises_for_a_released_job_is_logged(queue, start, caplog):
    def clumsy(job, execution):
        raise ZeroDivisionError("in the hook")

    running = threading.Event()

    @queue.handler("default")
    def wait(job):
        running.set()
        job.signal.wait(TIMEOUT)
        job.signal.raise_if_set()

    queue.enqueue(1, id="a")
    worker = start(queue, grace=0, hooks=Hooks(after=[clumsy]))
    assert running.wait(TIMEOUT)
    worker.stop()
    assert "an after hook failed" in caplog.text
    assert queue.status("a").state is State.QUEUED


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_hook_that_exits_fails_the_attempt_and_the_worker_goes_on(queue, start, sort):
    def quit_once(job, execution):
        if job.payload == "bad":
            raise SystemExit(3)

    async def fine(job):
        return "fine"

    queue.handler("default", max_attempts=1)(fine if sort == "async" else lambda job: "fine")
    start(queue, concurrency=1, hooks=Hooks(after=[quit_once]))
    with pytest.raises(JobFailed):
        queue.enqueue_and_wait("bad", timeout=TIMEOUT)
    assert queue.enqueue_and_wait("good", timeout=TIMEOUT) == "fine"


def test_an_error_whose_str_fails_fails_the_attempt_and_the_worker_goes_on(queue, start):
    class Speechless(Exception):
        def __str__(self) -> str:
            raise ValueError

    @queue.handler(max_attempts=1)
    def fail(job):
        if job.payload == "bad":
            raise Speechless

    start(queue, concurrency=1)
    with pytest.raises(JobFailed, match="<error message unavailable"):
        queue.enqueue_and_wait("bad", timeout=TIMEOUT)
    assert queue.enqueue_and_wait("good", timeout=TIMEOUT) is None


def test_after_hooks_run_even_if_the_lease_is_lost(queue, start):
    opened, closed = threading.Event(), threading.Event()
    threads = []

    @queue.handler(lease=0.3)
    def unlucky(job):
        opened.set()
        threads.append(threading.current_thread())
        job.signal.wait(TIMEOUT)

    def close(job, execution):
        threads.append(threading.current_thread())
        closed.set()

    queue.enqueue(1, id="a")
    start(queue, hooks=Hooks(after=[close]))
    assert opened.wait(TIMEOUT)
    assert queue.purge(ids=["a"]) == 1
    assert closed.wait(TIMEOUT)
    assert threads[0] is threads[1]


def test_hooks_do_not_run_for_a_hung_handler(queue, start, monkeypatch):
    """They would run beside the handler, in the thread that minds everybody's time."""
    monkeypatch.setattr(executor, "STOP_TIMEOUT", 0.05)
    go_on, calls = threading.Event(), []

    @queue.handler(timeout=0.05, max_attempts=1)
    def stubborn(job):
        go_on.wait(TIMEOUT)

    queue.enqueue(1, id="a")
    start(queue, hooks=Hooks(after=[lambda job, execution: calls.append(threading.get_ident())]))
    with pytest.raises(JobFailed):
        queue.result("a", timeout=TIMEOUT)
    assert queue.status("a").state is State.FAILED
    assert calls == []
    go_on.set()
