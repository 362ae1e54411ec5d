"""Heartbeats, and the leases that they keep."""

from __future__ import annotations

import msgspec

from ackline.job import State
from ackline.lifecycle import extend, redrive, release, request_cancel
from ackline.stores.base import BeatReply
from ackline.testing.conformance.bench import LEASE, Bench, policy_of
from ackline.testing.conformance.case import StoreCase


class HeartbeatRules(StoreCase):
    """Rule 10, the store's part: leases are extended, and the lost ones are named."""

    def test_a_heartbeat_extends_by_the_stores_clock(self, bench: Bench) -> None:
        """Rule 9: workers send a span of time, so a wrong clock of a worker changes nothing."""
        job = bench.taken("a")
        bench.clock.advance(20.0)

        assert bench.beat(job) == BeatReply([], [])
        assert bench.look("a").deadline == bench.clock.now() + LEASE

    def test_a_heartbeat_never_shortens_a_lease(self, bench: Bench) -> None:
        """A handler that asked for ten minutes has them, however often its worker beats."""
        bench.put_all("abc")
        jobs = bench.take(3)
        bench.apply_one(extend(jobs[1], 600.0))
        until = bench.clock.now() + 600.0
        bench.clock.advance(1.0)

        assert bench.beat(*jobs) == BeatReply([], [])
        usual = bench.clock.now() + LEASE
        assert [bench.look(id).deadline for id in "abc"] == [usual, until, usual]

    def test_jobs_that_were_claimed_together_have_deadlines_of_their_own(
        self, bench: Bench
    ) -> None:
        bench.put_all("abc")
        a, b, c = bench.take(3)
        bench.apply(extend(a, 600.0), extend(b, 1200.0))

        now = bench.clock.now()
        deadlines = [bench.look(id).deadline for id in "abc"]
        assert deadlines == [now + 600.0, now + 1200.0, c.deadline]

    def test_a_heartbeat_never_revives_a_lapsed_lease(self, bench: Bench) -> None:
        job = bench.taken("a")
        bench.clock.advance(LEASE)

        assert bench.beat(job) == BeatReply([0], [])
        assert bench.store.leases(bench.queue) == [job.without_data()]

    def test_lost_leases_are_named_by_their_place(self, bench: Bench) -> None:
        bench.put_all("abcd")
        a, b, c, d = bench.take(4)
        bench.complete(b)
        bench.apply_one(release(d, policy_of(d)))
        forged = msgspec.structs.replace(a, token=a.token + 1)
        unknown = msgspec.structs.replace(a, id="unknown")

        assert bench.beat(a, b, c, d, forged, unknown) == BeatReply([1, 3, 4, 5], [])

    def test_a_zombies_heartbeat_does_not_extend_its_successors_lease(self, bench: Bench) -> None:
        zombie = bench.taken("a")
        bench.clock.advance(LEASE)
        bench.sweep()
        job = bench.take_one(worker="w2")
        bench.clock.advance(5.0)

        assert bench.beat(zombie).lost == [0]
        assert bench.look("a").deadline == job.deadline

    def test_a_cancel_request_reaches_the_worker_by_its_heartbeat(self, bench: Bench) -> None:
        bench.put_all("abc")
        jobs = bench.take(3)
        bench.apply_one(request_cancel("b"))

        assert bench.beat(*jobs) == BeatReply([], [1])
        assert bench.look("b").cancel_requested

    def test_a_cancel_request_of_an_unknown_id_leaves_no_trace(self, bench: Bench) -> None:
        """It must not kill the next job of that id (arq 485)."""
        assert bench.apply_one(request_cancel("a")).applied is False

        job = bench.taken("a")

        assert not bench.look("a").cancel_requested
        assert bench.beat(job) == BeatReply([], [])

    def test_a_cancel_request_does_not_outlive_its_job(self, bench: Bench) -> None:
        bench.bury("a")
        assert bench.apply_one(request_cancel("a")).applied is False
        bench.apply_one(redrive("a"))

        assert bench.beat(bench.take_one()).cancelled == []

    def test_a_heartbeat_of_one_queue_reaches_no_other(self, bench: Bench) -> None:
        job = bench.taken("a")

        assert bench.beside("other").beat(job) == BeatReply([0], [])


class WorkerRules(StoreCase):
    """Which workers a queue has."""

    def test_a_worker_is_known_by_its_signs_of_life(self, bench: Bench) -> None:
        bench.put_all("ab")
        jobs = bench.take(2, worker="w1")
        bench.beat(*jobs, worker="w1", ttl=15.0)
        bench.beat(worker="w2", ttl=5.0)

        first, second = bench.workers()

        now = bench.clock.now()
        assert (first.beat.id, first.holds, first.expires_at) == ("w1", 2, now + 15.0)
        assert (second.beat.id, second.holds, second.expires_at) == ("w2", 0, now + 5.0)
        assert first.seen_at == now

    def test_a_silent_worker_stays_listed_and_its_death_can_be_seen(self, bench: Bench) -> None:
        bench.beat(worker="w1", ttl=5.0)
        bench.clock.advance(6.0)

        [worker] = bench.workers()

        assert worker.expires_at < bench.clock.now()

    def test_a_goodbye_takes_the_worker_off_the_list(self, bench: Bench) -> None:
        bench.beat(worker="w1")
        bench.beat(worker="w1", ttl=0.0)

        assert bench.workers() == []

    def test_a_reused_worker_id_hides_no_orphans(self, bench: Bench) -> None:
        """The worker died and came back under its old name (procrastinate 1518, oban 862)."""
        orphan = bench.taken("a")
        for _ in range(4):
            bench.clock.advance(10.0)
            bench.beat(worker="w1")

        assert bench.store.leases(bench.queue) == [orphan.without_data()]
        assert [verdict.state for verdict in bench.sweep()] == [State.QUEUED]

    def test_workers_of_one_queue_are_not_those_of_another(self, bench: Bench) -> None:
        bench.beat(worker="w1")
        bench.beside("other").beat(worker="w2")

        assert [worker.beat.id for worker in bench.workers()] == ["w1"]

    def test_the_workers_of_many_queues_are_listed_at_once(self, bench: Bench) -> None:
        other = bench.beside("other")
        bench.beat(worker="w1")
        bench.beat(worker="w2")
        other.put("a")
        job = other.take_one(worker="w1")
        other.beat(job, worker="w1")

        listed = bench.store.workers([other.queue, bench.beside("none").queue, bench.queue])

        assert [[(one.beat.id, one.holds) for one in found] for found in listed] == [
            [("w1", 1)],
            [],
            [("w1", 0), ("w2", 0)],
        ]
        assert bench.store.workers([]) == []

    def test_prune_forgets_workers_long_gone(self, bench: Bench) -> None:
        """Rule 13: every collection is prunable."""
        bench.beat(worker="gone", ttl=5.0)
        bench.clock.advance(86400.0)
        bench.beat(worker="here", ttl=5.0)
        bench.store.prune(bench.queue, 100)

        assert [worker.beat.id for worker in bench.workers()] == ["here"]
