"""A store that comes and goes: nothing is lost, and the worker comes back by itself."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

import ackline
from ackline import State, StoreClosed, StoreUnavailable
from ackline.core.config import DAY, Policy
from ackline.core.errors import ConfigError, JobCancelled, StoreError
from ackline.core.retry import Backoff
from ackline.queues import Queues
from ackline.stores.memory import MemoryStore
from ackline.worker import Worker
from ackline.worker.heartbeat import HeartbeatSender
from tests.waiting import TIMEOUT, until


class UnavailableStore(MemoryStore):
    """Fails some calls: before it did anything, or after, when only the answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.before = 0
        self.after = 0

    def claim(self, queue: Any, request: Any, transitions: Any = ()) -> Any:
        if transitions and self.before:
            self.before -= 1
            raise StoreUnavailable("the line is dead")
        claimed = super().claim(queue, request, transitions)
        if transitions and self.after:
            self.after -= 1
            raise StoreUnavailable("the answer was lost")
        return claimed


@pytest.mark.parametrize("moment", ["before", "after"])
def test_outcomes_are_sent_again_until_the_store_has_them(start, caplog, moment):
    caplog.set_level(logging.CRITICAL)
    store = UnavailableStore()
    queue = Queues(store)["work"]
    runs = []

    @queue.handler(lease=60)
    def count(job):
        runs.append(job.id)
        return job.payload

    start(queue)
    setattr(store, moment, 2)
    assert queue.enqueue_and_wait(5, id="a", timeout=TIMEOUT) == 5
    assert runs == ["a"]
    assert queue.counts()[State.COMPLETED] == 1


class RefusesOutcomes(MemoryStore):
    """Cannot take one outcome, whatever it comes with."""

    def claim(self, queue: Any, request: Any, transitions: Any = ()) -> Any:
        self._refuse(transitions)
        return super().claim(queue, request, transitions)

    def apply(self, queue: Any, transitions: Any) -> Any:
        self._refuse(transitions)
        return super().apply(queue, transitions)

    def _refuse(self, transitions: Any) -> None:
        if any(transition.result == b'"poison"' for transition in transitions):
            raise RuntimeError("a bug in the store")


def test_an_outcome_that_the_store_refuses_does_not_block_the_others(start, caplog):
    caplog.set_level(logging.CRITICAL)
    queue = Queues(RefusesOutcomes())["work"]
    queue.handler(lambda job: job.payload)
    queue.enqueue("poison", id="poison", priority=9)
    queue.enqueue_many(range(20), priority=8)
    start(queue)
    assert queue.enqueue_and_wait("good", timeout=TIMEOUT) == "good"
    until(lambda: queue.counts()[State.COMPLETED] == 21)  # another thread may bring the others
    assert queue.counts()[State.PROCESSING] == 1


class ForbiddenStore(MemoryStore):
    """Lets nobody in for a while, as after a change of the password."""

    def __init__(self) -> None:
        super().__init__()
        self.locked = threading.Event()
        self.refused = threading.Event()

    def claim(self, queue: Any, request: Any, transitions: Any = ()) -> Any:
        self._refuse()
        return super().claim(queue, request, transitions)

    def apply(self, queue: Any, transitions: Any) -> Any:
        self._refuse()
        return super().apply(queue, transitions)

    def _refuse(self) -> None:
        if self.locked.is_set():
            self.refused.set()
            raise StoreError("it wants a password")


def test_outcomes_are_kept_while_the_store_refuses_access(start, caplog):
    caplog.set_level(logging.CRITICAL)
    store = ForbiddenStore()
    queue = Queues(store)["work"]
    started, go_on, runs = threading.Event(), threading.Event(), []

    @queue.handler(lease=60, max_attempts=1)
    def count(job):
        runs.append(job.id)
        started.set()
        go_on.wait(TIMEOUT)
        return "done"

    queue.enqueue(1, id="a")
    start(queue)
    assert started.wait(TIMEOUT)
    store.locked.set()
    go_on.set()
    assert store.refused.wait(TIMEOUT)
    store.locked.clear()
    assert queue.result("a", timeout=TIMEOUT) == "done"
    assert runs == ["a"]


def test_a_worker_needs_a_queue_with_a_handler():
    queue = ackline.open("memory://")["empty"]
    with pytest.raises(ConfigError, match="handler"):
        Worker(queue)
    with pytest.raises(ConfigError, match="queue"):
        Worker()


def test_the_policies_of_handlers_are_published_for_other_processes(queue, start):
    @queue.handler("risky", max_attempts=9)
    def risky(job): ...

    start(queue)
    assert queue.settings().kinds["risky"].max_attempts == 9


class LockedStore(MemoryStore):
    """Refuses heartbeats for now."""

    locked = True

    def heartbeat(self, queue: Any, sent: Any, extensions: Any) -> Any:
        if self.locked:
            raise StoreUnavailable("the database is locked")
        return super().heartbeat(queue, sent, extensions)


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_worker_that_cannot_start_leaves_nothing_behind_and_can_be_started_later(sort):
    store = LockedStore()
    queue = Queues(store)["work"]

    async def echo_async(job: Any) -> Any:
        return job.payload

    queue.handler(echo_async if sort == "async" else lambda job: job.payload)
    threads = threading.active_count()
    worker = Worker(queue)
    with pytest.raises(StoreUnavailable):
        worker.start()
    assert threading.active_count() <= threads + 1  # the thread control may still be ending

    store.locked = False
    worker.start()
    assert queue.enqueue_and_wait(3, timeout=TIMEOUT) == 3
    store.locked = True
    worker.stop()


def test_a_pause_is_not_undone_by_a_worker_that_starts(queue):
    queue.handler("risky", max_attempts=9)(lambda job: None)
    stored = queue.settings()
    looked: list[int] = []

    def pause_after_reading() -> Any:
        if not looked:
            looked.append(1)
            ackline.Queues(queue.store)[queue.name].pause()
            return stored
        return type(queue.policies).stored_settings(queue.policies)

    queue.policies.stored_settings = pause_after_reading
    queue.policies.publish()
    del queue.policies.stored_settings
    settings = queue.settings()
    assert settings.paused
    assert settings.kinds["risky"].max_attempts == 9


def test_the_claim_loop_survives_errors_with_claimed_jobs(start, caplog):
    caplog.set_level(logging.CRITICAL)
    queue = Queues(MemoryStore())["work"]
    queue.handler(lambda job: job.payload)
    start(queue)
    troubles = [StoreUnavailable("a transient error")] * 6
    policy = queue.policies.of

    def failing_policy(record: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return policy(record)

    queue.policies.of = failing_policy  # type: ignore[method-assign]
    assert queue.enqueue_and_wait(3, id="a", timeout=TIMEOUT) == 3
    assert troubles == []
    assert queue.status("a").attempt == 1  # type: ignore[union-attr]


def test_a_cancelled_job_without_readable_policy_is_kept_by_the_queue_s_retention(start, caplog):
    caplog.set_level(logging.CRITICAL)
    queue = Queues(MemoryStore())["work"]
    queue.configure(policy=Policy(keep_cancelled=7 * DAY))
    queue.handler(lambda job: job.payload)
    start(queue)

    def cancelled_just_then(record: Any) -> Any:
        Queues(queue.store)["work"].cancel(record.id)
        raise StoreUnavailable("a transient error")

    queue.policies.of = cancelled_just_then  # type: ignore[method-assign]
    with pytest.raises(JobCancelled):
        queue.enqueue_and_wait(3, id="a", timeout=TIMEOUT)
    [job] = queue.store.get(queue.key, ["a"])
    assert (job.expires_at or 0) - queue.store.now() > 6 * DAY  # type: ignore[union-attr]


class AbsentStore(MemoryStore):
    """Cannot be reached for the first calls."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def describe(self, tenant: Any, name: Any = None, **options: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("nobody is there")
        return super().describe(tenant, name, **options)


def test_a_store_that_is_down_at_the_start_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    store = AbsentStore(3)
    store.open()
    queue = Queues(store)["work"]
    queue.handler("default")(lambda job: "done")
    worker = Worker(queue)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == "done"
    finally:
        worker.request_stop()
        thread.join(TIMEOUT)

    assert not thread.is_alive()
    assert caplog.text.count("nobody is there; not started yet") == 3


def test_a_worker_that_waits_for_its_store_can_be_stopped() -> None:
    store = AbsentStore(1_000_000)
    store.open()
    queue = Queues(store)["work"]
    queue.handler("default")(lambda job: "done")
    worker = Worker(queue)
    thread = threading.Thread(target=worker.run)
    thread.start()
    worker.request_stop()
    thread.join(TIMEOUT)

    assert not thread.is_alive()


def test_a_closed_store_is_not_waited_for() -> None:
    store = MemoryStore()
    store.open()
    queue = Queues(store)["work"]
    queue.handler("default")(lambda job: "done")
    store.close()

    with pytest.raises(StoreClosed):
        Worker(queue).run()


def test_a_failing_backoff_does_not_leave_a_job_unsettled(queue, start, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)

    def fail(*_arguments: object) -> float:
        raise OverflowError("too far")

    monkeypatch.setattr(Backoff, "delay", fail)

    @queue.handler
    def work(job):
        if job.payload == "fails":
            raise ValueError("boom")

    start(queue, concurrency=1)
    queue.enqueue("fails", id="a")
    queue.enqueue_and_wait("works", priority=0, timeout=TIMEOUT)

    job = queue.status("a")
    assert job.state is State.FAILING
    assert job.error.type == "OverflowError"
    assert job.record.run_at - queue.store.now() > 50.0


def test_jobs_that_no_executor_accepted_are_released(queue, start, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    troubles = [RuntimeError("can't start new thread")] * 2

    def expect(heartbeat: HeartbeatSender, lease: float) -> None:
        if troubles:
            raise troubles.pop()
        expect_in_time(heartbeat, lease)

    expect_in_time = HeartbeatSender.add_lease
    monkeypatch.setattr(HeartbeatSender, "add_lease", expect)
    queue.handler(lambda job: job.payload)
    start(queue)
    assert queue.enqueue_and_wait(3, id="a", timeout=TIMEOUT) == 3
    assert queue.status("a").attempt == 1


def begin_and_close_the_store(queue: Any, go_on: threading.Event) -> Worker:
    """A worker whose store was closed while one job ran and others waited."""
    started = threading.Event()

    def work(job: Any) -> None:
        started.set()
        go_on.wait(TIMEOUT)

    queue.handler(work)
    queue.enqueue_many(range(9))
    worker = Worker(queue, concurrency=1, maintenance=False)
    worker.start()
    assert started.wait(TIMEOUT)
    queue.store.close()
    return worker


def test_a_worker_whose_store_was_closed_first_is_stopped_at_once(queue, caplog):
    go_on = threading.Event()
    others = set(threading.enumerate())
    worker = begin_and_close_the_store(queue, go_on)
    go_on.set()
    before = time.monotonic()

    worker.stop()

    assert time.monotonic() - before < 3
    assert caplog.text.count("is stopping: the") == 1
    assert "retrying in" not in caplog.text
    assert caplog.text.count("could not be stored") >= 1
    left = set(threading.enumerate()) - others
    assert not [thread for thread in left if "ackline claims" in thread.name]


def test_a_handler_may_end_within_the_grace_period_though_the_store_was_closed(queue):
    go_on = threading.Event()
    worker = begin_and_close_the_store(queue, go_on)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    stopping.join(0.1)
    assert stopping.is_alive()
    go_on.set()
    stopping.join(TIMEOUT)
    assert not stopping.is_alive()


@pytest.mark.every_store
def test_run_ends_when_its_store_is_closed(queue):
    queue.handler(lambda job: job.payload)
    worker = Worker(queue, maintenance=False)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except StoreClosed as error:
            raised.append(error)

    running = threading.Thread(target=run)
    running.start()
    assert queue.enqueue_and_wait(3, timeout=TIMEOUT) == 3
    queue.store.close()
    running.join(TIMEOUT)
    assert not running.is_alive()
    assert len(raised) == 1
