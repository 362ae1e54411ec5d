"""Functions around each handler."""

from __future__ import annotations

import pytest

from ackline import JobFailed
from ackline.worker import Hooks

SOON = 10.0


def test_an_after_hook_can_change_the_result_and_its_ttl(queue, start):
    def shout(job, execution):
        execution.result = execution.result.upper()
        execution.result_ttl = 7

    queue.handler(lambda job: "quiet")
    start(queue, hooks=Hooks(after=[shout]))

    assert queue.enqueue_and_wait(1, id="a", timeout=SOON) == "QUIET"
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
    assert queue.enqueue_and_wait(1, timeout=SOON) == "forgiven"


def test_an_after_hook_can_turn_a_result_into_an_error(queue, start):
    def judge(job, execution):
        execution.error = ValueError("not good enough")

    queue.handler("default", max_attempts=1)(lambda job: "fine")
    start(queue, hooks=Hooks(after=[judge]))
    with pytest.raises(JobFailed, match="not good enough"):
        queue.enqueue_and_wait(1, timeout=SOON)


def test_a_before_hook_that_raises_fails_the_attempt_and_the_handler_does_not_run(queue, start):
    ran: list[object] = []

    def refuse(job):
        raise PermissionError(f"{job.id} may not run")

    queue.handler("default", max_attempts=1)(ran.append)
    start(queue, hooks=Hooks(before=[refuse]))
    with pytest.raises(JobFailed, match="a may not run"):
        queue.enqueue_and_wait(1, id="a", timeout=SOON)
    assert ran == []


def test_an_after_hook_that_raises_fails_the_attempt(queue, start, caplog):
    def clumsy(job, execution):
        raise ZeroDivisionError("in the hook")

    queue.handler("default", max_attempts=1)(lambda job: 1)
    start(queue, hooks=Hooks(after=[clumsy]))
    with pytest.raises(JobFailed, match="in the hook"):
        queue.enqueue_and_wait(1, timeout=SOON)
    assert "an after hook failed" in caplog.text
