"""What goes wrong beside a call must not cost the caller what it has got."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from ackline import Failure, InvalidOption, Queue, Queues, State, StoreUnavailable, Timeout
from ackline.core import lifecycle
from ackline.core.limits import MAX_MESSAGE_LENGTH
from ackline.queue.results import PendingResult
from ackline.testing import ManualClock, memory_queues


@pytest.fixture
def queue(queues: Queues) -> Queue[Any, Any]:
    return queues["email"]


@pytest.fixture
def call() -> Callable[..., Future[Any]]:
    """Call something in another thread."""
    return ThreadPoolExecutor(8).submit


def failing(times: int, verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb of a store that cannot be reached for so many calls."""
    left = [times]

    def attempt(*args: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise StoreUnavailable("cut off")
        return verb(*args, **more)

    return attempt


class TestClaim:
    def test_what_was_claimed_is_told_though_the_lapsed_cannot_be_expired(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue.enqueue(1, id="old")
        queue.claim(lease=10)
        clock.advance(11)
        queue.enqueue(2, id="new")
        monkeypatch.setattr(queue.store, "apply", failing(1, queue.store.apply))
        assert [job.id for job in queue.claim()] == ["new"]
        assert [job.id for job in queue.claim()] == ["old"]

    def test_the_second_look_may_fail(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue.enqueue(1, id="old")
        [job] = queue.claim(lease=10)
        queue.enqueue(2, id="done")
        [done] = queue.claim(lease=100)
        clock.advance(11)
        claim = queue.store.claim
        claims = iter([claim, failing(1, claim), claim])

        def claim_once(*args: Any) -> Any:
            return next(claims)(*args)

        monkeypatch.setattr(queue.store, "claim", claim_once)
        settled = lifecycle.complete(done.record, None, queue.policies.of(done.record))
        request = queue.claim_request(1, None, None, None)
        claimed = queue.claim_records(request, [settled])
        assert [verdict.applied for verdict in claimed.verdicts] == [True]
        assert [record.id for record in queue.claim_records(request).jobs] == [job.id]


class TestTexts:
    @pytest.mark.parametrize("error", ["no \udcff", ValueError("no \udcff")], ids=ascii)
    def test_an_error_that_is_not_unicode_can_be_kept(
        self, queue: Queue[Any, Any], error: Any
    ) -> None:
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        queue.fail(job, error)
        failed = queue.status("a")
        assert failed is not None
        assert failed.error is not None
        assert failed.error.message == "no \\udcff"
        assert "\\udcff" in list(queue.events())[-1].note

    def test_a_name_that_is_not_unicode_can_be_kept(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        queue.cancel("a", by="me \udcff")
        queue.pause(by="me \udcff")
        queue.purge(by="me \udcff")
        assert [event.by for event in queue.events()][1:] == ["me \\udcff"] * 3

    def test_a_long_message_is_cut(self, queue: Queue[Any, Any]) -> None:
        queue.enqueue(1, id="a")
        [job] = queue.claim()
        queue.bury(job, ValueError("é" * (MAX_MESSAGE_LENGTH + 1000)))
        failed = queue.status("a")
        assert failed is not None
        assert failed.error is not None
        assert failed.error.message == "é" * (MAX_MESSAGE_LENGTH - 40) + "… (1,040 more characters)"


@pytest.mark.every_store
class TestMany:
    def test_redrive_all_ends_though_the_jobs_fail_again(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        redriven: list[str] = []
        apply = queue.store.apply

        def fail_all() -> None:
            failure = Failure(act="fail", attempt=1, type="Error")
            jobs = [job.record for job in queue.claim(1200)]
            apply(queue.key, [lifecycle.bury(job, failure, queue.policies.of(job)) for job in jobs])

        def apply_and_fail(key: Any, steps: Any) -> Any:
            verdicts = apply(key, steps)
            redriven.extend(step.id for step in steps)
            clock.advance(1)
            fail_all()
            return verdicts

        queue.enqueue_many(range(1200))
        fail_all()
        monkeypatch.setattr(queue.store, "apply", apply_and_fail)
        assert queue.redrive_all() == 1200
        assert len(redriven) == len(set(redriven)) == 1200
        assert queue.counts()[State.FAILED] == 1200

    def test_purge_leaves_what_came_later(
        self, queue: Queue[Any, Any], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue.enqueue_many(range(600))
        purge = queue.store.purge

        def purge_while_enqueueing(*args: Any) -> int:
            clock.advance(0.001)
            queue.enqueue("later")
            return purge(*args)

        monkeypatch.setattr(queue.store, "purge", purge_while_enqueueing)
        assert queue.purge() == 600
        assert {job.payload for job in queue.jobs().jobs} == {"later"}


class TestWaiting:
    # Not Redis: its messages carry the results, so nothing is read for them.
    @pytest.mark.parametrize("store_name", ["memory", "sqlite"])
    def test_a_store_that_cannot_be_read_for_a_while(
        self,
        queue: Queue[Any, Any],
        call: Callable[..., Future[Any]],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.WARNING, "ackline")
        monkeypatch.setattr(queue.store, "get", failing(3, queue.store.get))
        monkeypatch.setattr(queue.store, "events", failing(2, queue.store.events))
        waiting = call(queue.enqueue_and_wait, 1, timeout=10)
        [job] = queue.claim(wait=5)
        queue.complete(job, "at last")
        assert waiting.result(10) == "at last"
        assert queue.waiter.last_error is None
        logged = [
            record for record in caplog.records if "cannot read the results" in record.message
        ]
        assert 1 <= len(logged) <= 3

    def test_a_timeout_tells_why(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ackline.queue.results.MAX_WAIT", 0.05)
        monkeypatch.setattr(queue.store, "get", failing(1000, queue.store.get))
        with pytest.raises(Timeout) as caught:
            queue.enqueue_and_wait(1, timeout=0.3)
        assert isinstance(caught.value.__cause__, StoreUnavailable)

    def test_a_callback_that_fails_does_not_end_the_others_wait(
        self, queue: Queue[Any, Any], call: Callable[..., Future[Any]]
    ) -> None:
        def fail() -> None:
            raise RuntimeError("loop is closed")

        queue.enqueue(1, id="a")
        [job] = queue.claim()
        with queue.waiter.expect("a") as expected:
            expected.on_done(fail)
            waiting = [call(queue.result, "a", 10) for _ in range(3)]
            queue.complete(job, "one")
            assert [each.result(5) for each in waiting] == ["one"] * 3
        later = call(queue.enqueue_and_wait, 2, timeout=10)
        queue.complete(queue.claim(wait=5)[0], "two")
        assert later.result(5) == "two"

    def test_only_what_has_ended_is_looked_up(
        self, queue: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked_up: list[str] = []
        get = queue.store.get

        def note(key: Any, ids: Any) -> Any:
            looked_up.extend(ids)
            return get(key, ids)

        queue.enqueue_many(range(100), delay=1000)
        expected = [queue.waiter.expect(job.id, since=-1) for job in queue.jobs(limit=100).jobs]
        monkeypatch.setattr("ackline.queue.results.MAX_WAIT", 60.0)
        time.sleep(1.2)  # the looks at all of them are over
        monkeypatch.setattr(queue.store, "get", note)
        for n in range(50):
            queue.enqueue(n)
        queue.cancel(expected[7].id)
        self._wait(expected[7])
        assert looked_up.count(expected[8].id) <= 1
        assert looked_up.count(expected[7].id) >= 1

    def _wait(self, expected: PendingResult) -> None:
        assert expected.wait(5).state is State.CANCELLED

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="cannot fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_forked_process_waits_for_itself(self) -> None:
        queue = memory_queues()["email"]
        before = queue.waiter
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            code = 1
            try:
                with queue.waiter.expect("a") as expected:
                    queue.enqueue(1, id="a")
                    queue.complete(queue.claim()[0], "done")
                    code = 0 if expected.wait(10).state is State.COMPLETED else 1
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert queue.waiter is before
        queue.close()

    @pytest.mark.parametrize("ttl", [0, 0.5])
    def test_a_result_that_nobody_could_see_is_refused(
        self, queue: Queue[Any, Any], ttl: float
    ) -> None:
        with pytest.raises(InvalidOption, match="result_ttl"):
            queue.enqueue_and_wait(1, result_ttl=ttl)
        assert sum(queue.counts().values()) == 0


def test_settings_that_cannot_work_are_refused(queue: Queue[Any, Any]) -> None:
    with pytest.raises(ValueError, match="group_limit"):
        queue.configure(group_limit=0)
    assert queue.settings().group_limit == 1
