"""Heartbeats, and the leases that they extend."""

from __future__ import annotations

import msgspec

from ackline.core.job import State
from ackline.core.lifecycle import extend, redrive, release, request_cancel
from ackline.stores.contract import HeartbeatReply
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, policy_of


class HeartbeatRules(StoreCase):
    """Rule 10, the store's part: leases are extended, and the lost ones are reported."""

    def test_a_heartbeat_extends_by_the_stores_clock(self, driver: QueueDriver) -> None:
        """Rule 9: workers send a duration, so the wrong clock of a worker changes nothing."""
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(20.0)

        assert driver.heartbeat(job) == HeartbeatReply([], [])
        assert driver.get("a").deadline == driver.clock.now() + LEASE

    def test_a_heartbeat_never_shortens_a_lease(self, driver: QueueDriver) -> None:
        """A handler that extended its lease keeps the later deadline."""
        driver.enqueue_all("abc")
        jobs = driver.claim_jobs(3)
        driver.apply_one(extend(jobs[1], 600.0))
        until = driver.clock.now() + 600.0
        driver.clock.advance(1.0)

        assert driver.heartbeat(*jobs) == HeartbeatReply([], [])
        usual = driver.clock.now() + LEASE
        assert [driver.get(id).deadline for id in "abc"] == [usual, until, usual]

    def test_jobs_that_were_claimed_together_have_deadlines_of_their_own(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("abc")
        a, b, c = driver.claim_jobs(3)
        driver.apply(extend(a, 600.0), extend(b, 1200.0))

        now = driver.clock.now()
        deadlines = [driver.get(id).deadline for id in "abc"]
        assert deadlines == [now + 600.0, now + 1200.0, c.deadline]

    def test_a_heartbeat_never_revives_a_lapsed_lease(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)

        assert driver.heartbeat(job) == HeartbeatReply([0], [])
        assert driver.store.leases(driver.queue) == [job.without_data()]

    def test_lost_leases_are_returned_by_their_index(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcd")
        a, b, c, d = driver.claim_jobs(4)
        driver.complete(b)
        driver.apply_one(release(d, policy_of(d)))
        forged = msgspec.structs.replace(a, token=a.token + 1)
        unknown = msgspec.structs.replace(a, id="unknown")

        assert driver.heartbeat(a, b, c, d, forged, unknown) == HeartbeatReply([1, 3, 4, 5], [])

    def test_a_zombies_heartbeat_does_not_extend_its_successors_lease(
        self, driver: QueueDriver
    ) -> None:
        zombie = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        driver.sweep()
        job = driver.claim_one(worker="w2")
        driver.clock.advance(5.0)

        assert driver.heartbeat(zombie).lost == [0]
        assert driver.get("a").deadline == job.deadline

    def test_a_cancel_request_reaches_the_worker_by_its_heartbeat(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("abc")
        jobs = driver.claim_jobs(3)
        driver.apply_one(request_cancel("b"))

        assert driver.heartbeat(*jobs) == HeartbeatReply([], [1])
        assert driver.get("b").cancel_requested

    def test_a_cancel_request_of_an_unknown_id_leaves_no_trace(self, driver: QueueDriver) -> None:
        """It must not stop the next job with that id (arq 485)."""
        assert driver.apply_one(request_cancel("a")).applied is False

        job = driver.enqueue_and_claim("a")

        assert not driver.get("a").cancel_requested
        assert driver.heartbeat(job) == HeartbeatReply([], [])

    def test_a_cancel_request_does_not_outlive_its_job(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")
        assert driver.apply_one(request_cancel("a")).applied is False
        driver.apply_one(redrive("a"))

        assert driver.heartbeat(driver.claim_one()).cancelled == []

    def test_a_heartbeat_of_one_queue_reaches_no_other(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")

        assert driver.other_queue("other").heartbeat(job) == HeartbeatReply([0], [])


class WorkerRules(StoreCase):
    """Which workers a queue has."""

    def test_a_worker_is_listed_by_its_heartbeats(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        jobs = driver.claim_jobs(2, worker="w1")
        driver.heartbeat(*jobs, worker="w1", ttl=15.0)
        driver.heartbeat(worker="w2", ttl=5.0)

        first, second = driver.workers()

        now = driver.clock.now()
        assert (first.heartbeat.id, first.leases, first.expires_at) == ("w1", 2, now + 15.0)
        assert (second.heartbeat.id, second.leases, second.expires_at) == ("w2", 0, now + 5.0)
        assert first.last_heartbeat_at == now

    def test_a_silent_worker_stays_listed_as_dead(self, driver: QueueDriver) -> None:
        driver.heartbeat(worker="w1", ttl=5.0)
        driver.clock.advance(6.0)

        [worker] = driver.workers()

        assert worker.expires_at < driver.clock.now()

    def test_a_worker_that_leaves_is_no_longer_listed(self, driver: QueueDriver) -> None:
        driver.heartbeat(worker="w1")
        driver.heartbeat(worker="w1", ttl=0.0)

        assert driver.workers() == []

    def test_a_reused_worker_id_hides_no_orphans(self, driver: QueueDriver) -> None:
        """The worker died and restarted under its old id (procrastinate 1518, oban 862)."""
        orphan = driver.enqueue_and_claim("a")
        for _ in range(4):
            driver.clock.advance(10.0)
            driver.heartbeat(worker="w1")

        assert driver.store.leases(driver.queue) == [orphan.without_data()]
        assert [verdict.state for verdict in driver.sweep()] == [State.QUEUED]

    def test_workers_of_one_queue_are_not_those_of_another(self, driver: QueueDriver) -> None:
        driver.heartbeat(worker="w1")
        driver.other_queue("other").heartbeat(worker="w2")

        assert [worker.heartbeat.id for worker in driver.workers()] == ["w1"]

    def test_the_workers_of_many_queues_are_listed_at_once(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.heartbeat(worker="w1")
        driver.heartbeat(worker="w2")
        other.enqueue("a")
        job = other.claim_one(worker="w1")
        other.heartbeat(job, worker="w1")

        listed = driver.store.workers([other.queue, driver.other_queue("none").queue, driver.queue])

        assert [[(one.heartbeat.id, one.leases) for one in found] for found in listed] == [
            [("w1", 1)],
            [],
            [("w1", 0), ("w2", 0)],
        ]
        assert driver.store.workers([]) == []

    def test_prune_deletes_workers_long_gone(self, driver: QueueDriver) -> None:
        """Rule 13: every collection can be pruned."""
        driver.heartbeat(worker="gone", ttl=5.0)
        driver.clock.advance(86400.0)
        driver.heartbeat(worker="here", ttl=5.0)
        driver.store.prune(driver.queue, 100)

        assert [worker.heartbeat.id for worker in driver.workers()] == ["here"]
