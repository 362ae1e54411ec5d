"""Stores that are away, full or picky; relays that die too often; jobs that are called back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import ackline
from ackline import NewJob, Queue, State, StoreError, StoreFull, StoreUnavailable
from ackline.core.job import Draft, QueueKey
from ackline.relay import relay as module
from ackline.relay import source as relay_source
from ackline.stores.contract import KeyWrite, Receipt, Store
from ackline.testing import ManualClock
from tests.harness.faults.wrapped_store import WrappedStore
from tests.relay.conftest import Pair
from tests.relay.faulty_relays import LEASE, make_relay, run_until_empty, unsettled, wrap_store
from tests.relay.test_exactly_once import dies_before_it_settles, enqueues


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_DELAYS", (0.05, 0.05))


class RefusesOneJob(WrappedStore):
    """Refuses every batch with a certain job in it."""

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        if any(draft.id == "huge" for draft in drafts):
            raise StoreError("512 MB is the most that a value may have")
        return super().enqueue(queue, drafts, keys)


class RefusesAllJobs(WrappedStore):
    """Refuses everything, for good."""

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        raise StoreError("it wants a password")


class UnavailableStore(WrappedStore):
    """A store that cannot be reached for a while."""

    def __init__(self, inner: Store, calls: int) -> None:
        super().__init__(inner)
        self.calls = calls

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        if self.calls:
            self.calls -= 1
            raise StoreUnavailable("it is away")
        return super().enqueue(queue, drafts, keys)


def state_of(queue: ackline.Queue[object, object], id: str) -> State | None:
    job = queue.status(id)
    return job.state if job is not None else None


def test_a_job_that_the_target_refuses_goes_to_the_dlq_and_delays_no_other(pair: Pair) -> None:
    source = pair.source["email"]
    source.enqueue_many([NewJob(n, id=f"email-{n}") for n in range(20)])
    source.enqueue(1, id="huge")
    source.enqueue_many([NewJob(n, id=f"email-{n}") for n in range(20, 40)])
    relay = make_relay(source, wrap_store(pair.target, RefusesOneJob))

    run_until_empty(relay)

    assert pair.target["email"].counts()[State.QUEUED] == 40
    assert (relay.stats().relayed, relay.stats().refused) == (40, 1)
    job = source.status("huge")
    assert job is not None
    assert job.state is State.FAILED
    assert job.error is not None
    assert "512 MB" in job.error.message


def test_a_target_that_refuses_everything_costs_no_job_anything(pair: Pair) -> None:
    source = pair.source["email"]
    source.enqueue_many(range(10))
    relay = make_relay(source, wrap_store(pair.target, RefusesAllJobs))
    thread = threading.Thread(target=relay.run)
    thread.start()
    while relay.stats().errors < 8:
        assert thread.is_alive()
    relay.request_stop()
    thread.join()

    assert source.counts()[State.QUEUED] == 10
    assert [job.attempt for job in source.jobs().jobs] == [0] * 10
    assert "it wants a password" in relay.stats().last_error


@pytest.mark.every_store
def test_a_full_target_is_filled_and_waited_for(pair: Pair) -> None:
    source, target = pair.source["email"], pair.target["email"]
    target.configure(max_jobs=30)
    source.enqueue_many(range(100))
    relay = make_relay(source, target, batch=50)
    with pytest.raises(StoreFull):
        relay.drain()
    with pytest.raises(StoreFull):
        relay.drain()
    assert target.counts()[State.QUEUED] == 25

    target.configure(max_jobs=None)
    run_until_empty(relay)

    assert target.counts()[State.QUEUED] == 100
    assert set(enqueues(target).values()) == {1}


def test_a_target_that_comes_back_is_used_again(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.source["email"].enqueue_many(range(10))
    target = wrap_store(pair.target, lambda store: UnavailableStore(store, calls=3))
    relay = make_relay(pair.source["email"], target)
    arrived = threading.Event()
    watcher = pair.target["email"].on("enqueue", lambda _event: arrived.set())
    thread = threading.Thread(target=relay.run)
    thread.start()

    assert arrived.wait(20)
    relay.request_stop()
    thread.join()
    watcher.close()

    assert pair.target["email"].counts()[State.QUEUED] == 10
    assert pair.source["email"].counts()[State.COMPLETED] == 10
    assert "it is away" in caplog.text


def test_jobs_that_arrive_while_it_waits_are_moved_at_once(pair: Pair) -> None:
    relay = make_relay(pair.source["email"], pair.target["email"])
    arrived = threading.Event()
    watcher = pair.target["email"].on("enqueue", lambda _event: arrived.set())
    thread = threading.Thread(target=relay.run)
    thread.start()

    pair.open_source()["email"].enqueue(1)
    assert arrived.wait(20)
    relay.request_stop()
    thread.join(20)
    watcher.close()

    assert not thread.is_alive()
    assert pair.source["email"].counts()[State.COMPLETED] == 1
    assert [worker for worker in pair.source["email"].workers() if worker.heartbeat.ttl] == []


class TestCancelAndEdit:
    def test_a_job_that_waits_in_the_source_can_be_cancelled_and_edited(self, pair: Pair) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="cancelled")
        source.enqueue(1, id="edited")
        source.cancel("cancelled")
        source.edit("edited", payload=2, priority=9)

        make_relay(source, target).drain()

        [job] = target.claim(10)
        assert (job.id, job.payload, job.priority) == ("edited", 2, 9)

    def test_cancelled_after_a_relay_died_it_is_cancelled_in_the_target_too(
        self, pair: Pair, clock: ManualClock
    ) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="a")
        dies_before_it_settles(pair)
        clock.advance(LEASE)
        source.expire(source.store.leases(source.key))
        assert source.cancel("a") is State.CANCELLED

        make_relay(source, target).drain()

        assert state_of(target, "a") is State.CANCELLED

    def test_a_cancel_that_comes_too_late_is_no_error(
        self, pair: Pair, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "ackline")
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="a")
        dies_before_it_settles(pair)
        target.purge()
        clock.advance(LEASE)
        source.expire(source.store.leases(source.key))
        source.cancel("a")

        relay = make_relay(source, target)
        relay.drain()

        assert "'a' was already gone from the target when it was cancelled" in caplog.text
        assert unsettled(source, target) == []


class TestAttempts:
    """They are the handler's, and relays that die must not use them up."""

    def test_a_job_whose_only_attempt_a_dead_relay_used_is_moved(
        self, pair: Pair, clock: ManualClock
    ) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="a", max_attempts=1)
        source.claim(worker="relay-that-died", lease=LEASE)
        clock.advance(LEASE)
        source.expire(source.store.leases(source.key))
        assert state_of(source, "a") is State.FAILED

        relay = make_relay(source, target)
        relay.drain()

        assert relay.stats().redriven == 1
        assert state_of(target, "a") is State.QUEUED

    def test_such_a_job_is_found_behind_many_others(
        self, pair: Pair, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relay_source, "PAGE_SIZE", 2)
        source, target = pair.source["email"], pair.target["email"]
        self._strand_behind(source, clock, 5)

        make_relay(source, target).drain()

        assert state_of(target, "a") is State.QUEUED
        assert source.counts()[State.FAILED] == 5

    def test_a_large_dlq_is_read_in_several_checks(
        self, pair: Pair, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(relay_source, "PAGE_SIZE", 2)
        monkeypatch.setattr(relay_source, "MAX_PAGES", 1)
        source = pair.source["email"]
        self._strand_behind(source, clock, 5)
        looks = relay_source.SourceQueue(source, LEASE, 1)

        assert [looks.redrive_lost() for _ in range(6)] == [0, 0, 1, 0, 0, 0]
        # And from the beginning again.
        source.claim(1, worker="relay-that-died", lease=LEASE)
        clock.advance(LEASE)
        source.expire(source.store.leases(source.key))
        assert sum(looks.redrive_lost() for _ in range(3)) == 1

    def _strand_behind(self, source: Queue[Any, Any], clock: ManualClock, others: int) -> None:
        """A job that a dead relay had, in a DLQ where others came first."""
        for n in range(others):
            source.enqueue(n, max_attempts=1)
            source.fail(source.claim()[0], "boom")
            clock.advance(1.0)
        source.enqueue(1, id="a", max_attempts=1)
        source.claim(worker="relay-that-died", lease=LEASE)
        clock.advance(LEASE)
        source.expire(source.store.leases(source.key))
        assert state_of(source, "a") is State.FAILED

    def test_a_job_that_was_moved_before_is_not_moved_again(
        self, pair: Pair, clock: ManualClock
    ) -> None:
        source, target = pair.source["email"], pair.target["email"]
        source.enqueue(1, id="a", max_attempts=1, result_ttl=0)
        dies_before_it_settles(pair)
        target.complete(target.claim()[0])
        clock.advance(LEASE)
        source.expire(source.store.leases(source.key))

        relay = make_relay(source, target)
        relay.drain()

        assert (relay.stats().redriven, relay.stats().replayed) == (1, 1)
        assert enqueues(target) == {"a": 1}

    def test_jobs_that_failed_elsewhere_stay_in_the_dlq(self, pair: Pair) -> None:
        source = pair.source["email"]
        source.enqueue(1, id="a", max_attempts=1)
        source.fail(source.claim()[0], "boom")

        relay = make_relay(source, pair.target["email"])
        relay.drain()

        assert relay.stats().redriven == 0
        assert state_of(source, "a") is State.FAILED
