from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

import ackline
from ackline import (
    JobCancelled,
    JobFailed,
    JobNotFound,
    Queue,
    Queues,
    State,
    Timeout,
    WrongState,
)
from ackline.core.config import Policy
from ackline.testing import ManualClock


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["img"]


@pytest.fixture
def call() -> Callable[..., Future[Any]]:
    """Call something in another thread."""
    return ThreadPoolExecutor(8).submit


def run(queue: Queue[Any, Any], result: Any = None) -> None:
    [job] = queue.claim(wait=5)
    queue.complete(job, result)


@pytest.mark.every_store
class TestEnqueueAndWait:
    @pytest.mark.parametrize("result", [{"ok": True}, None, 0])
    def test_answers_the_result(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]], result: Any
    ) -> None:
        waiting = call(queue.enqueue_and_wait, {"url": "x"}, id="a", timeout=5)
        run(queue, result)
        assert waiting.result(5) == result

    def test_joins_a_job_in_flight(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        waiting = [call(queue.enqueue_and_wait, 2, id="a", timeout=5) for _ in range(3)]
        queue.complete(job, "one run")
        assert [each.result(5) for each in waiting] == ["one run"] * 3

    def test_a_job_that_ends_before_the_wait_begins_is_not_missed(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ackline.queue.results.MAX_WAIT", 60.0)
        enqueue, looked = queue.store.enqueue, threading.Event()

        def enqueue_and_run(*arguments: Any) -> Any:
            with queue.waiter.expect("other") as other:
                other.on_done(looked.set)
                receipts = enqueue(*arguments)
                enqueue(queue.key, [queue.draft_builder.draft(2, {"id": "other"})])
                for job in queue.claim(2):
                    queue.complete(job, "quick")
                assert looked.wait(5), "the news have been read, and nobody waited for this job"
            return receipts

        monkeypatch.setattr(queue.store, "enqueue", enqueue_and_run)
        assert queue.enqueue_and_wait(1, id="a", timeout=5) == "quick"

    def test_answers_a_completed_job_at_once(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        run(queue, "cached")
        assert queue.enqueue_and_wait(2, id="a", timeout=0) == "cached"

    def test_a_timeout_leaves_the_job_alone(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(Timeout):
            queue.enqueue_and_wait(1, id="a", timeout=0.01)
        run(queue, "late")
        assert queue.result("a") == "late"

    def test_a_job_that_failed_raises_its_original_error(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        waiting = call(queue.enqueue_and_wait, 1, id="a", max_attempts=1, timeout=5)
        [job] = queue.claim(wait=5)
        try:
            raise ValueError("no such image")
        except ValueError as error:
            queue.fail(job, error)
        with pytest.raises(JobFailed) as caught:
            waiting.result(5)
        failure = caught.value.failure
        assert failure is not None
        assert (failure.type, failure.message, failure.attempt) == (
            "ValueError",
            "no such image",
            1,
        )
        assert "raise ValueError" in failure.traceback

    def test_waits_through_retries(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        waiting = call(queue.enqueue_and_wait, 1, id="a", timeout=5)
        [job] = queue.claim(wait=5)
        queue.fail(job, "first time", delay=0)
        run(queue, "second time")
        assert waiting.result(5) == "second time"

    def test_a_cancelled_job_raises(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        queue.enqueue(1, id="a")
        waiting = call(queue.enqueue_and_wait, 1, id="a", timeout=5)
        # It is joined and then cancelled, or enqueued anew after it was.
        while not wait([waiting], timeout=0.01).done:
            if queue.counts()[State.QUEUED]:
                queue.cancel("a")
        with pytest.raises(JobCancelled):
            waiting.result(5)

    def test_a_failed_job_that_is_enqueued_anew_is_waited_for_anew(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]], clock: ManualClock
    ) -> None:
        for n in range(20):
            queue.enqueue(1, id="a")
            queue.bury(queue.claim()[0], "first time")
            waiting = call(queue.enqueue_and_wait, 1, id="a", timeout=5, result_ttl=1)
            queue.enqueue(1, kind="noise", delay=3600)  # news, just then
            [job] = queue.claim(wait=5, kinds=["default"])
            queue.complete(job, n)
            assert waiting.result(5) == n
            clock.advance(2)

    def test_a_result_that_is_not_kept_is_not_waited_for_in_vain(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        queue.configure(policy=Policy(result_ttl=0))
        waiting = call(queue.enqueue_and_wait, 1, id="a", timeout=30)
        run(queue, "gone at once")
        with pytest.raises(JobNotFound):
            waiting.result(5)


@pytest.mark.every_store
class TestResult:
    def test_of_a_job_that_never_was(self, queue: Queue[Any, Any]) -> None:
        with pytest.raises(JobNotFound) as missing:
            queue.result("a", timeout=5)
        assert missing.value.id == "a"

    def test_of_a_job_that_is_not_finished(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        with pytest.raises(Timeout):
            queue.result("a")

    def test_of_a_job_that_finishes_soon(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        queue.enqueue(1, id="a")
        waiting = call(queue.result, "a", 5)
        run(queue, "done")
        assert waiting.result(5) == "done"

    def test_of_a_job_purged_while_waited_for(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        queue.enqueue(1, id="a")
        waiting = call(queue.result, "a", 30)
        queue.purge()
        with pytest.raises(JobNotFound):
            waiting.result(5)

    def test_closing_tells_those_who_wait(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        with queue.waiter.expect("a") as expected:
            queue.close()
            with pytest.raises(Timeout, match="closed"):
                expected.wait(5)


class TestKeeping:
    def test_each_result_is_kept_for_its_own_time(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        for id, ttl in (("short", 10), ("long", 100)):
            queue.enqueue(1, id=id, result_ttl=ttl)
        for job in queue.claim(2):
            queue.complete(job, job.id)
        clock.advance(10)
        assert queue.result("long") == "long"
        with pytest.raises(JobNotFound):
            queue.result("short")

    def test_a_result_can_be_kept_longer_or_shorter(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        for id in ("more", "less"):
            queue.enqueue(1, id=id, result_ttl=10)
        for job in queue.claim(2):
            queue.complete(job, job.id)
        queue.keep_result("more", 100)
        queue.keep_result("less", 1)
        clock.advance(50)
        assert queue.result("more") == "more"
        with pytest.raises(JobNotFound):
            queue.result("less")

    def test_a_result_that_is_gone_cannot_be_kept(
        self, queue: Queue[Any, Any], clock: ManualClock
    ) -> None:
        with pytest.raises(JobNotFound):
            queue.keep_result("never", 10)
        queue.enqueue(1, id="a", result_ttl=10)
        run(queue)
        clock.advance(10)
        with pytest.raises(JobNotFound):
            queue.keep_result("a", 10)

    def test_a_running_job_has_no_result_to_keep(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        queue.claim()
        with pytest.raises(WrongState):
            queue.keep_result("a", 10)


@pytest.mark.every_store
def test_deduplication_ttl_outlasts_the_result_ttl_but_not_a_cancel_or_redrive(
    queues: Queues, clock: ManualClock
) -> None:
    queue = queues["email"]
    queue.configure(policy=ackline.Policy(dedup_ttl=600, max_attempts=1))
    for id in ("completed", "failed", "redriven", "cancelled"):
        queue.enqueue(id, id=id, result_ttl=5)
    completed, failed, redriven = queue.claim(3)
    queue.complete(completed, None)
    queue.fail(failed, "boom")
    queue.fail(redriven, "boom")
    queue.redrive("redriven")
    queue.cancel("cancelled")
    clock.advance(599)

    found = {
        id: type(queue.enqueue(2, id=id)).__name__
        for id in ("completed", "failed", "redriven", "cancelled")
    }

    assert found == {
        "completed": "Completed",
        "failed": "Queued",
        "redriven": "Duplicate",
        "cancelled": "Queued",
    }
    clock.advance(1)
    assert isinstance(queue.enqueue(2, id="completed"), ackline.Queued)
