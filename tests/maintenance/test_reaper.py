from __future__ import annotations

import logging
from typing import Any

import pytest

from ackline import LeaseLost, Queue, Queues, State
from ackline.maintenance import Reaper, expire_worker
from ackline.stores.contract import Heartbeat, LeaseExtension
from ackline.testing import ManualClock


def make_heartbeat(worker: str, ttl: float = 10.0) -> Heartbeat:
    return Heartbeat(id=worker, host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=ttl)


def state_of(queue: Queue[Any, Any], id: str) -> State:
    job = queue.status(id)
    assert job is not None
    return job.state


def test_a_lapsed_lease_is_taken_back(queues: Queues, clock: ManualClock) -> None:
    queue = queues["email"]
    queue.enqueue(1, id="a")
    [job] = queue.claim(lease=5, worker="w1")
    reaper = Reaper([queue], 1.0)
    clock.advance(4.9)
    reaper.step()
    assert state_of(queue, "a") is State.PROCESSING
    clock.advance(0.1)
    reaper.step()
    assert state_of(queue, "a") is State.QUEUED
    assert reaper.stats().done == {"expired": 1, "dead_lettered": 0}
    with pytest.raises(LeaseLost):
        queue.complete(job)


def test_a_job_that_kills_its_workers_ends_in_the_dlq(queues: Queues, clock: ManualClock) -> None:
    queue = queues["email"]
    queue.enqueue(1, id="a", max_attempts=3)
    reaper = Reaper([queue], 1.0)
    for _ in range(3):
        assert len(queue.claim(lease=5)) == 1
        clock.advance(5)
        reaper.step()
    job = queue.status("a")
    assert job is not None
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.type == "LeaseExpired"
    assert reaper.stats().done == {"expired": 3, "dead_lettered": 1}


def test_more_leases_than_one_batch_are_taken_back_at_once(
    queues: Queues, clock: ManualClock
) -> None:
    queue = queues["email"]
    queue.enqueue_many(range(450))
    assert len(queue.claim(450, lease=5)) == 450
    clock.advance(5)
    Reaper([queue], 1.0).step()
    assert queue.counts()[State.QUEUED] == 450


def test_two_reapers_take_each_lease_back_once(queues: Queues, clock: ManualClock) -> None:
    queue = queues["email"]
    queue.enqueue(1, id="a")
    queue.claim(lease=5)
    clock.advance(5)
    reapers = [Reaper([queue], 1.0), Reaper([queue], 1.0)]
    for reaper in reapers:
        reaper.step()
    assert sum(reaper.stats().done.get("expired", 0) for reaper in reapers) == 1
    assert queue.claim()[0].attempt == 2


@pytest.mark.every_store
class TestMissedHeartbeats:
    def test_all_leases_of_a_worker_without_heartbeat_are_expired(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        queue.enqueue_many(range(3))
        queue.claim(2, lease=300, worker="silent")
        [kept] = queue.claim(1, lease=300, worker="alive")
        queue.store.heartbeat(queue.key, make_heartbeat("silent", ttl=10), [])
        queue.store.heartbeat(queue.key, make_heartbeat("alive", ttl=60), [])
        reaper = Reaper([queue], 1.0)
        clock.advance(9)
        reaper.step()
        assert queue.counts()[State.PROCESSING] == 3
        clock.advance(1)
        reaper.step()
        assert [job.id for job in queue.jobs(states=["processing"]).jobs] == [kept.id]
        again = queue.claim()[0]
        status = queue.status(again.id)
        assert status is not None
        assert status.error is not None
        assert "worker heartbeat missed (worker silent)" in status.error.message

    def test_a_worker_whose_heartbeat_returns_meanwhile_keeps_its_leases(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = queues["email"]
        queue.enqueue(1, id="a")
        [job] = queue.claim(lease=300, worker="slow")
        queue.store.heartbeat(queue.key, make_heartbeat("slow"), [])
        clock.advance(20)
        leases = queue.store.leases
        hold = LeaseExtension("a", job.record.token, 300)

        def read_then_speak(key: Any, *, worker: str | None = None, limit: int = 200) -> Any:
            found = leases(key, worker=worker, limit=limit)
            if worker is not None:
                queue.store.heartbeat(queue.key, make_heartbeat("slow"), [hold])
            return found

        monkeypatch.setattr(queue.store, "leases", read_then_speak)
        Reaper([queue], 1.0).step()
        assert state_of(queue, "a") is State.PROCESSING
        queue.complete(job)

    def test_a_dead_child_loses_its_leases_at_once(self, queues: Queues) -> None:
        queue = queues["email"]
        queue.enqueue_many(range(450))
        queue.claim(449, worker="dead")
        queue.claim(1, worker="alive")
        taken = expire_worker(queue, "dead", "its process was killed by signal 9")
        assert taken.expired == 449
        assert queue.counts()[State.PROCESSING] == 1
        assert expire_worker(queue, "dead", "again").expired == 0

    def test_a_dead_child_stays_listed_as_dead(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        heartbeat = Heartbeat(
            id="dead", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=60.0
        )
        queue.enqueue(1)
        queue.claim(1, worker="dead")
        queue.store.heartbeat(queue.key, heartbeat, [])
        expire_worker(queue, "dead", "its process was killed by signal 9")
        clock.advance(0.01)

        (known,) = queue.workers()
        assert (known.heartbeat.id, known.leases) == ("dead", 0)
        assert known.expires_at <= clock.now()


class TestStuck:
    @pytest.fixture
    def stuck(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> Queue[Any, Any]:
        """A queue whose leases cannot be taken back."""
        queue = queues["email"]
        queue.enqueue(1, id="poor-one")
        queue.claim(lease=5)
        monkeypatch.setattr(queue.policies, "of", self.broken)
        clock.advance(5)
        return queue

    def broken(self, record: Any) -> Any:
        raise RuntimeError("settings cannot be read")

    def test_a_stuck_lease_is_reported_once_with_its_id(
        self, stuck: Queue[Any, Any], clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        reaper = Reaper([stuck], 1.0, stuck_after=300)
        for seconds in (0.0, 300.0, 1.0, 1.0):
            clock.advance(seconds)
            with pytest.raises(ExceptionGroup):
                reaper.step()
        errors = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
        assert len(errors) == 1
        assert "'poor-one'" in errors[0].message
        assert "expired more than 300 s ago" in errors[0].message

    def test_a_lease_that_lapsed_during_a_downtime_is_not_reported(
        self, queues: Queues, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = queues["email"]
        queue.enqueue(1)
        queue.claim(lease=5)
        clock.advance(86400)
        Reaper([queue], 1.0).step()
        assert [entry.name for entry in caplog.records] == ["ackline.jobs"]
