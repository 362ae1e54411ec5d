"""Recovery can be turned off, its interval set; recovered jobs are counted, stuck ones reported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ackline import ConfigError, Queue, Queues, State, StoreUnavailable, Worker
from ackline.core.job import Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.maintenance import Maintenance, Reaper, expire_worker, recover
from ackline.queue import Recovered, RecoveredBy
from ackline.queue.consume import MAX_POLL_INTERVAL, poll_interval
from ackline.queue.metadata.recovery_counts import load_recovery_counts
from ackline.stores.contract import LEASES_LIMIT, ClaimRequest, Heartbeat, KeyWrite
from ackline.testing import ManualClock

LEASE = 5.0


def make_heartbeat(worker: str, ttl: float = 10.0) -> Heartbeat:
    return Heartbeat(id=worker, host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=ttl)


def lapse(queue: Queue[Any, Any], clock: ManualClock, *ids: str, **options: Any) -> None:
    """Let a worker claim jobs and never come back."""
    for id in ids:
        queue.enqueue(1, id=id, **options)
    assert len(queue.claim(len(ids), lease=LEASE, worker="gone")) == len(ids)
    clock.advance(LEASE)


def counted(queue: Queue[Any, Any]) -> dict[RecoveredBy, int]:
    return {way: recovered.jobs for way, recovered in queue.recovery().by_source.items()}


def without_counts(queue: Queue[Any, Any], answer: Callable[[], bool]) -> Callable[..., bool]:
    """A `write_keys` that writes all but the counts of what was recovered."""
    write = queue.store.write_keys

    def call(tenant: str, writes: Sequence[KeyWrite]) -> bool:
        return answer() if writes[0].key[1] == "recovered" else write(tenant, writes)

    return call


class TestCounting:
    def test_a_healthy_queue_has_empty_recovery_stats(self, queues: Queues) -> None:
        queue = queues["email"]
        queue.enqueue(1)
        queue.complete(queue.claim()[0])

        stats = queue.recovery()

        assert (stats.by_source, stats.jobs, stats.overdue, stats.stuck) == ({}, 0, 0, ())

    @pytest.mark.every_store
    def test_each_recovery_path_is_counted_separately(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a", "b")
        Reaper([queue], 1.0).step()
        assert counted(queue) == {RecoveredBy.SWEEP: 2}

        queue.claim(2, lease=LEASE)
        clock.advance(LEASE)
        assert len(queue.claim(2, worker="next", lease=300)) == 2
        assert counted(queue) == {RecoveredBy.SWEEP: 2, RecoveredBy.CLAIM: 2}

        queue.store.heartbeat(queue.key, make_heartbeat("next"), [])
        clock.advance(11)
        Reaper([queue], 1.0).step()
        assert counted(queue)[RecoveredBy.HEARTBEAT] == 2

    @pytest.mark.every_store
    def test_missing_heartbeat_recovers_the_job_in_5_to_10_seconds_configurable(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        for ttl in (5.0, 10.0):
            queue.enqueue(1, id=f"after {ttl:g} s")
            queue.claim(1, lease=300, worker=f"w{ttl:g}")
            queue.store.heartbeat(queue.key, make_heartbeat(f"w{ttl:g}", ttl), [])
        reaper, recovered = Reaper([queue], 1.0), []
        for seconds in (4, 2, 3, 2):
            clock.advance(seconds)
            reaper.step()
            recovered.append(sorted(job.id for job in queue.jobs(states=[State.QUEUED])))

        assert recovered == [[], ["after 5 s"], ["after 5 s"], ["after 10 s", "after 5 s"]]

    @pytest.mark.every_store
    def test_jobs_recovered_by_claims_are_counted_when_the_queue_is_closed(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a", "b")
        assert len(queue.claim(2, lease=300)) == 2
        queue.close()

        other = Queues(queues.store)["email"]
        assert counted(other) == {RecoveredBy.CLAIM: 2}

    def test_a_dead_child_counts_as_recovered_by_the_monitor(self, queues: Queues) -> None:
        queue = queues["email"]
        queue.enqueue(1)
        queue.claim(worker="child")

        expire_worker(queue, "child", "its process was killed")

        assert counted(queue) == {RecoveredBy.MONITOR: 1}

    def test_recovery_stats_have_dead_letters_and_the_last_time(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "poison", max_attempts=1)
        Reaper([queue], 1.0).step()

        [recovered] = queue.recovery().by_source.values()

        assert recovered == Recovered(1, 1, recovered.last_at)
        assert recovered.last_at == pytest.approx(clock.now(), abs=0.001)

    def test_a_lease_that_was_extended_meanwhile_is_not_counted(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a")
        [lease] = queue.store.leases(queue.key)
        Reaper([queue], 1.0).step()

        assert not queue.expire([lease])[0].applied

        assert counted(queue) == {RecoveredBy.SWEEP: 1}

    @pytest.mark.every_store
    def test_concurrent_recoveries_are_all_counted(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, *map(str, range(24)))

        def expire(lease: Record) -> bool:
            return queue.expire([lease], "gone", RecoveredBy.SWEEP)[0].applied

        with ThreadPoolExecutor(8) as threads:
            applied = list(threads.map(expire, queue.store.leases(queue.key)))

        assert counted(queue) == {RecoveredBy.SWEEP: sum(applied)}
        assert queue.counts()[State.QUEUED] == sum(applied) > 0

    def test_a_count_that_fails_fails_no_recovery(
        self,
        queues: Queues,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a")

        def away() -> bool:
            raise StoreUnavailable("it is away")

        with monkeypatch.context() as patched:
            patched.setattr(queue.store, "write_keys", without_counts(queue, away))
            Reaper([queue], 1.0).step()

        assert queue.counts()[State.QUEUED] == 1
        assert "it is away" in caplog.text
        assert counted(queue) == {RecoveredBy.SWEEP: 1}

    def test_a_claim_writes_no_counts(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a")

        def refuse(*_given: object) -> None:
            raise AssertionError("a claim must not wait for a count")

        with monkeypatch.context() as patched:
            for verb in ("write_keys", "read_keys"):
                patched.setattr(queue.store, verb, refuse)
            assert [job.id for job in queue.claim()] == ["a"]

        Reaper([queue], 1.0).step()
        assert load_recovery_counts(queue.store, queue.key)[RecoveredBy.CLAIM].jobs == 1

    def test_contended_counts_are_written_the_next_time(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a")
        with monkeypatch.context() as patched:
            patched.setattr(queue.store, "write_keys", without_counts(queue, lambda: False))
            Reaper([queue], 1.0).step()

        assert load_recovery_counts(queue.store, queue.key) == {}
        assert counted(queue) == {RecoveredBy.SWEEP: 1}

    def test_queues_are_counted_separately(self, queues: Queues, clock: ManualClock) -> None:
        lapse(queues["email"], clock, "a")
        lapse(queues["email too"], clock, "a")
        Reaper([queues["email"]], 1.0).step()

        assert counted(queues["email"]) == {RecoveredBy.SWEEP: 1}
        assert counted(queues["email too"]) == {}


class TestTurnedOff:
    @pytest.mark.every_store
    def test_a_queue_is_left_alone_by_sweeps_and_claims(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        queue.configure(recovery=False)
        lapse(queue, clock, "a")
        queue.store.heartbeat(queue.key, make_heartbeat("gone"), [])
        clock.advance(60)

        Maintenance([queue]).step()

        assert queue.claim() == []
        assert queue.counts()[State.PROCESSING] == 1
        assert queue.recovery().overdue == 1

    def test_control_turned_on_both_would_have_taken_it(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a")
        assert len(queue.claim(lease=LEASE)) == 1
        clock.advance(LEASE)
        Maintenance([queue]).step()
        assert queue.counts()[State.QUEUED] == 1

    def test_a_waiting_claim_does_not_spin_on_leases_it_must_not_expire(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = queues["email"]
        queue.configure(recovery=False)
        lapse(queue, clock, "a")
        claims = []
        claim = queue.store.claim

        def counting(*given: Any, **more: Any) -> Any:
            claims.append(given)
            return claim(*given, **more)

        monkeypatch.setattr(queue.store, "claim", counting)
        assert queue.claim(wait=0.3) == []
        assert len(claims) <= 4

    def test_recover_works_though_recovery_is_off(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.configure(recovery=False)
        lapse(queue, clock, "lapsed")
        queue.enqueue(1, id="silent")
        queue.claim(lease=3600, worker="silent one")
        queue.store.heartbeat(queue.key, make_heartbeat("silent one"), [])
        clock.advance(11)

        assert recover(queue).expired == 2

        assert counted(queue) == {RecoveredBy.MANUAL: 2}
        assert {job.attempt for job in queue.claim(2)} == {2}

    def test_maintenance_without_recovery_expires_nothing(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "a")

        Maintenance([queue], recovery=False).step()
        assert queue.counts()[State.PROCESSING] == 1
        Maintenance([queue]).step()
        assert queue.counts()[State.QUEUED] == 1

    def test_a_worker_without_recovery_expires_nothing(
        self, queues: Queues, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[dict[str, Any]] = []

        def make(queues: Any, **more: Any) -> Maintenance:
            given.append(more)
            return Maintenance(queues, **more)

        monkeypatch.setattr("ackline.worker.worker.Maintenance", make)
        queue = queues["email"]
        queue.handler("work")(lambda job: None)
        for recovery in (True, False):
            worker = Worker(queue, recovery=recovery, grace=0)
            worker.start()
            worker.stop()
        assert given == [{"recovery": True}, {"recovery": False}]


class TestSweepInterval:
    def test_a_queue_can_be_swept_less_often(self, queues: Queues, clock: ManualClock) -> None:
        queue = queues["email"]
        queue.configure(sweep_every=3600.0)
        lapse(queue, clock, "a")
        reaper = Reaper([queue], 1.0)
        reaper.step()
        assert queue.counts()[State.QUEUED] == 1

        queue.claim(lease=LEASE)
        clock.advance(LEASE)
        reaper.step()
        assert queue.counts()[State.PROCESSING] == 1

    def test_a_queue_can_be_swept_more_often(self, queues: Queues) -> None:
        queue = queues["email"]
        queue.configure(sweep_every=0.05)
        queue.enqueue(1)
        queue.claim()

        assert Reaper([queue], 1.0).step() == pytest.approx(0.05)

    @pytest.mark.parametrize("setting", ["sweep_every", "stuck_after"])
    def test_invalid_settings_are_refused(self, queues: Queues, setting: str) -> None:
        with pytest.raises(ConfigError, match=setting):
            queues["email"].configure(**{setting: -1.0})  # type: ignore[arg-type]


class TestStuck:
    def test_leases_left_because_recovery_is_off_are_reported_with_the_reason(
        self, queues: Queues, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = queues["email"]
        queue.configure(recovery=False, stuck_after=60.0)
        lapse(queue, clock, "poor-one")
        reaper = Reaper([queue], 1.0)
        reaper.step()
        assert not caplog.records
        assert queue.recovery().stuck == ()

        clock.advance(61)
        reaper.step()
        reaper.step()

        errors = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
        assert len(errors) == 1
        assert "'poor-one'" in caplog.text
        stats = queue.recovery()
        assert (stats.stuck, stats.overdue) == (("poor-one",), 1)
        assert stats.longest_overdue == pytest.approx(61)

    def test_a_process_that_recovers_nothing_reports_all_the_same(
        self, queues: Queues, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "poor-one")
        clock.advance(301)

        Reaper([queue], 1.0, recovery=False).step()

        assert "'poor-one'" in caplog.text


def test_recovery_counts_as_an_attempt_until_the_dlq(queues: Queues, clock: ManualClock) -> None:
    queue = queues["email"]
    queue.enqueue(1, id="poison", max_attempts=3)
    for attempt in range(1, 4):
        [job] = queue.claim(lease=LEASE)
        assert job.attempt == attempt
        clock.advance(LEASE)
        Reaper([queue], 1.0).step()

    job_now = queue.status("poison")
    assert job_now is not None
    assert job_now.state is State.FAILED
    assert queue.recovery().by_source[RecoveredBy.SWEEP].dead_lettered == 1


class TestWaiting:
    """How long a claimer waits that came across leases which have lapsed."""

    def pause_of(self, queue: Queue[Any, Any], limit: int = 1) -> float:
        request = ClaimRequest(worker="idle", limit=limit, lease=LEASE, kinds=frozenset({"none"}))
        return poll_interval(queue.claim_records(request))

    def test_a_lease_that_cannot_be_expired_is_retried_with_a_pause(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As while a transaction of its handler's holds it: idle workers would keep a core busy."""
        queue = queues["email"]
        lapse(queue, clock, "held")

        def refuse(_queue: object, steps: list[Transition]) -> list[Verdict]:
            return [Verdict(False, State.PROCESSING)] * len(steps)

        monkeypatch.setattr(queue.store, "apply", refuse)

        assert self.pause_of(queue) == MAX_POLL_INTERVAL

    def test_a_store_that_refuses_to_expire_is_retried_with_a_pause(
        self, queues: Queues, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, "held")

        def fail(*_arguments: object) -> None:
            raise StoreUnavailable("away")

        monkeypatch.setattr(queue.store, "apply", fail)

        assert self.pause_of(queue) == MAX_POLL_INTERVAL

    def test_more_lapsed_leases_than_one_batch_are_expired_without_a_pause(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        lapse(queue, clock, *map(str, range(LEASES_LIMIT + 1)))

        assert self.pause_of(queue) < 0.01
        assert self.pause_of(queue) == MAX_POLL_INTERVAL
        assert queue.counts()[State.PROCESSING] == 0

    def test_without_recovery_the_next_scheduled_job_is_still_waited_for(
        self, queues: Queues, clock: ManualClock
    ) -> None:
        queue = queues["email"]
        queue.configure(recovery=False)
        lapse(queue, clock, "held")
        queue.enqueue(1, delay=0.25)

        assert self.pause_of(queue) == pytest.approx(0.25)
