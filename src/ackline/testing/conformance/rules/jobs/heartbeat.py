"""Heartbeats, and the leases that they keep."""

from __future__ import annotations

import msgspec

from ackline.core.job import State
from ackline.core.lifecycle import extend, redrive, release, request_cancel
from ackline.stores.contract import HeartbeatReply
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, policy_of


class HeartbeatRules(StoreCase):
    """Rule 10, the store's part: leases are extended, and the lost ones are named."""

    def test_a_heartbeat_extends_by_the_stores_clock(self, bench: QueueDriver) -> None:
        """Rule 9: workers send a span of time, so a wrong clock of a worker changes nothing."""
        job = bench.taken("a")
        bench.clock.advance(20.0)

        assert bench.heartbeat(job) == HeartbeatReply([], [])
        assert bench.get("a").deadline == bench.clock.now() + LEASE

    def test_a_heartbeat_never_shortens_a_lease(self, bench: QueueDriver) -> None:
        """A handler that asked for ten minutes has them, however often its worker beats."""
        bench.put_all("abc")
        jobs = bench.take(3)
        bench.apply_one(extend(jobs[1], 600.0))
        until = bench.clock.now() + 600.0
        bench.clock.advance(1.0)

        assert bench.heartbeat(*jobs) == HeartbeatReply([], [])
        usual = bench.clock.now() + LEASE
        assert [bench.get(id).deadline for id in "abc"] == [usual, until, usual]

    def test_jobs_that_were_claimed_together_have_deadlines_of_their_own(
        self, bench: QueueDriver
    ) -> None:
        bench.put_all("abc")
        a, b, c = bench.take(3)
        bench.apply(extend(a, 600.0), extend(b, 1200.0))

        now = bench.clock.now()
        deadlines = [bench.get(id).deadline for id in "abc"]
        assert deadlines == [now + 600.0, now + 1200.0, c.deadline]

    def test_a_heartbeat_never_revives_a_lapsed_lease(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.clock.advance(LEASE)

        assert bench.heartbeat(job) == HeartbeatReply([0], [])
        assert bench.store.leases(bench.queue) == [job.without_data()]

    def test_lost_leases_are_named_by_their_place(self, bench: QueueDriver) -> None:
        bench.put_all("abcd")
        a, b, c, d = bench.take(4)
        bench.complete(b)
        bench.apply_one(release(d, policy_of(d)))
        forged = msgspec.structs.replace(a, token=a.token + 1)
        unknown = msgspec.structs.replace(a, id="unknown")

        assert bench.heartbeat(a, b, c, d, forged, unknown) == HeartbeatReply([1, 3, 4, 5], [])

    def test_a_zombies_heartbeat_does_not_extend_its_successors_lease(
        self, bench: QueueDriver
    ) -> None:
        zombie = bench.taken("a")
        bench.clock.advance(LEASE)
        bench.sweep()
        job = bench.take_one(worker="w2")
        bench.clock.advance(5.0)

        assert bench.heartbeat(zombie).lost == [0]
        assert bench.get("a").deadline == job.deadline

    def test_a_cancel_request_reaches_the_worker_by_its_heartbeat(self, bench: QueueDriver) -> None:
        bench.put_all("abc")
        jobs = bench.take(3)
        bench.apply_one(request_cancel("b"))

        assert bench.heartbeat(*jobs) == HeartbeatReply([], [1])
        assert bench.get("b").cancel_requested

    def test_a_cancel_request_of_an_unknown_id_leaves_no_trace(self, bench: QueueDriver) -> None:
        """It must not kill the next job of that id (arq 485)."""
        assert bench.apply_one(request_cancel("a")).applied is False

        job = bench.taken("a")

        assert not bench.get("a").cancel_requested
        assert bench.heartbeat(job) == HeartbeatReply([], [])

    def test_a_cancel_request_does_not_outlive_its_job(self, bench: QueueDriver) -> None:
        bench.dead_letter("a")
        assert bench.apply_one(request_cancel("a")).applied is False
        bench.apply_one(redrive("a"))

        assert bench.heartbeat(bench.take_one()).cancelled == []

    def test_a_heartbeat_of_one_queue_reaches_no_other(self, bench: QueueDriver) -> None:
        job = bench.taken("a")

        assert bench.other_queue("other").heartbeat(job) == HeartbeatReply([0], [])


class WorkerRules(StoreCase):
    """Which workers a queue has."""

    def test_a_worker_is_known_by_its_signs_of_life(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        jobs = bench.take(2, worker="w1")
        bench.heartbeat(*jobs, worker="w1", ttl=15.0)
        bench.heartbeat(worker="w2", ttl=5.0)

        first, second = bench.workers()

        now = bench.clock.now()
        assert (first.heartbeat.id, first.leases, first.expires_at) == ("w1", 2, now + 15.0)
        assert (second.heartbeat.id, second.leases, second.expires_at) == ("w2", 0, now + 5.0)
        assert first.last_heartbeat_at == now

    def test_a_silent_worker_stays_listed_and_its_death_can_be_seen(
        self, bench: QueueDriver
    ) -> None:
        bench.heartbeat(worker="w1", ttl=5.0)
        bench.clock.advance(6.0)

        [worker] = bench.workers()

        assert worker.expires_at < bench.clock.now()

    def test_a_goodbye_takes_the_worker_off_the_list(self, bench: QueueDriver) -> None:
        bench.heartbeat(worker="w1")
        bench.heartbeat(worker="w1", ttl=0.0)

        assert bench.workers() == []

    def test_a_reused_worker_id_hides_no_orphans(self, bench: QueueDriver) -> None:
        """The worker died and came back under its old name (procrastinate 1518, oban 862)."""
        orphan = bench.taken("a")
        for _ in range(4):
            bench.clock.advance(10.0)
            bench.heartbeat(worker="w1")

        assert bench.store.leases(bench.queue) == [orphan.without_data()]
        assert [verdict.state for verdict in bench.sweep()] == [State.QUEUED]

    def test_workers_of_one_queue_are_not_those_of_another(self, bench: QueueDriver) -> None:
        bench.heartbeat(worker="w1")
        bench.other_queue("other").heartbeat(worker="w2")

        assert [worker.heartbeat.id for worker in bench.workers()] == ["w1"]

    def test_the_workers_of_many_queues_are_listed_at_once(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.heartbeat(worker="w1")
        bench.heartbeat(worker="w2")
        other.put("a")
        job = other.take_one(worker="w1")
        other.heartbeat(job, worker="w1")

        listed = bench.store.workers([other.queue, bench.other_queue("none").queue, bench.queue])

        assert [[(one.heartbeat.id, one.leases) for one in found] for found in listed] == [
            [("w1", 1)],
            [],
            [("w1", 0), ("w2", 0)],
        ]
        assert bench.store.workers([]) == []

    def test_prune_forgets_workers_long_gone(self, bench: QueueDriver) -> None:
        """Rule 13: every collection is prunable."""
        bench.heartbeat(worker="gone", ttl=5.0)
        bench.clock.advance(86400.0)
        bench.heartbeat(worker="here", ttl=5.0)
        bench.store.prune(bench.queue, 100)

        assert [worker.heartbeat.id for worker in bench.workers()] == ["here"]
