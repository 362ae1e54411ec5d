"""Claims: which jobs are leased, in which order, for how long."""

from __future__ import annotations

from ackline.core.job import State
from ackline.core.lifecycle import Verdict, cancel, complete, redrive, release
from ackline.stores.contract import ClaimRequest, Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, draft, policy_of


class OrderRules(StoreCase):
    """Rule 8: higher priority first, FIFO inside a priority, nobody starves."""

    def test_the_higher_priority_goes_first(self, driver: QueueDriver) -> None:
        for id, priority in (("low", 0), ("normal", 5), ("high", 9)):
            driver.enqueue(id, priority=priority)

        assert driver.claim_ids() == ["high", "normal", "low"]

    def test_first_in_first_out_inside_a_priority(self, driver: QueueDriver) -> None:
        driver.enqueue_all(["c", "a"])
        driver.enqueue("b")
        driver.clock.advance(1.0)
        driver.enqueue("0")

        assert [driver.claim_one().id for _ in range(4)] == ["c", "a", "b", "0"]

    def test_waiting_outweighs_priority_in_the_end(self, driver: QueueDriver) -> None:
        driver.configure(ageing=60.0)
        driver.enqueue("old and low", priority=0)
        driver.clock.advance(9 * 60.0 + 1)
        driver.enqueue("new and high", priority=9)

        assert driver.claim_ids() == ["old and low", "new and high"]

    def test_waiting_less_than_a_step_of_priority_outweighs_nothing(
        self, driver: QueueDriver
    ) -> None:
        driver.configure(ageing=60.0)
        driver.enqueue("old", priority=4)
        driver.clock.advance(59.0)
        driver.enqueue("new", priority=5)

        assert driver.claim_ids() == ["new", "old"]

    def test_the_lowest_priority_is_claimed_under_a_steady_stream_of_the_highest(
        self, driver: QueueDriver
    ) -> None:
        driver.configure(ageing=1.0)
        driver.enqueue("lowest", priority=0)
        served: list[str] = []
        for n in range(20):
            driver.enqueue_all([f"{n}-a", f"{n}-b"], priority=9)
            served += driver.claim_ids(1)
            driver.clock.advance(1.0)

        assert "lowest" in served

    def test_a_promoted_job_is_ordered_by_when_it_was_due(self, driver: QueueDriver) -> None:
        driver.enqueue("due first", delay=10.0)
        driver.enqueue("due second", delay=20.0)
        driver.clock.advance(15.0)
        driver.enqueue("queued between")
        driver.clock.advance(15.0)

        assert driver.claim_ids() == ["due first", "queued between", "due second"]

    def test_kinds_share_one_order(self, driver: QueueDriver) -> None:
        """Unless a worker claims only some kinds."""
        for id, kind, priority in (("1", "x", 1), ("2", "y", 9), ("3", "z", 5), ("4", "x", 9)):
            driver.enqueue(id, kind=kind, priority=priority)

        assert driver.claim_ids() == ["2", "4", "3", "1"]

    def test_a_redriven_job_goes_to_the_end(self, driver: QueueDriver) -> None:
        driver.dead_letter("old")
        driver.clock.advance(1.0)
        driver.enqueue("waiting")
        driver.clock.advance(1.0)
        driver.apply_one(redrive("old"))

        assert driver.claim_ids() == ["waiting", "old"]


class ClaimRules(StoreCase):
    """Which jobs a claim returns, and what else."""

    def test_a_claim_leases_in_one_step(self, driver: QueueDriver) -> None:
        """Rules 2 and 5: a new lease and a counted attempt, in one atomic step."""
        driver.enqueue("a", payload=b"work")

        job = driver.claim_one(worker="w7", lease=12.0)

        assert (job.state, job.attempts, job.worker) == (State.PROCESSING, 1, "w7")
        assert (job.payload, job.started_at) == (b"work", driver.clock.now())
        assert job.deadline == driver.clock.now() + 12.0
        assert driver.get("a") == job

    def test_a_claimed_job_is_found_by_its_worker_at_once(self, driver: QueueDriver) -> None:
        """No job is lost between being popped and being registered (Sidekiq, Faktory, kombu)."""
        driver.enqueue_all(["a", "b", "c"])
        driver.claim_one(worker="other")

        jobs = driver.claim_jobs(2, worker="w1")

        leased = driver.store.leases(driver.queue, worker="w1")
        assert leased == [job.without_data() for job in jobs]

    def test_a_leased_job_is_not_claimed_again(self, driver: QueueDriver) -> None:
        """Rule 2: at most one live lease for each job."""
        driver.enqueue_and_claim("a")

        assert driver.claim_jobs(10) == []

    def test_a_job_past_its_deadline_is_not_claimed_before_its_lease_is_expired(
        self, driver: QueueDriver
    ) -> None:
        """Rule 5: otherwise the crash would not be counted."""
        driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)

        assert driver.claim_jobs(10) == []

    def test_the_limit_applies(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abcde")

        assert len(driver.claim_jobs(3)) == 3
        assert driver.counts() == {State.PROCESSING: 3, State.QUEUED: 2}

    def test_a_limit_of_zero_claims_nothing(self, driver: QueueDriver) -> None:
        driver.enqueue("a")

        assert driver.claim_jobs(0) == []
        assert driver.state("a") is State.QUEUED

    def test_an_empty_queue_returns_nothing(self, driver: QueueDriver) -> None:
        claimed = driver.claim(5)

        assert (claimed.jobs, claimed.lapsed, claimed.next_at) == ([], [], None)
        assert claimed.now == driver.clock.now()

    def test_only_the_requested_kinds_are_claimed(self, driver: QueueDriver) -> None:
        driver.enqueue("m", kind="mail")
        driver.enqueue("i", kind="image")
        driver.enqueue("v", kind="video")

        assert driver.claim_ids(kinds={"video", "mail", "unknown"}) == ["m", "v"]
        assert driver.state("i") is State.QUEUED

    def test_no_requested_kinds_means_no_jobs(self, driver: QueueDriver) -> None:
        driver.enqueue("a")

        assert driver.claim_ids(kinds=set()) == []

    def test_a_backlog_of_other_kinds_hides_nothing(self, driver: QueueDriver) -> None:
        """A long backlog of one kind does not stop the workers of another."""
        driver.enqueue_all([f"other-{n}" for n in range(1500)], kind="other", priority=9)
        driver.enqueue("mine", kind="mine", priority=0)

        assert driver.claim_ids(kinds={"mine"}) == ["mine"]

    def test_the_lease_of_a_kind_overrides_the_claims(self, driver: QueueDriver) -> None:
        driver.enqueue("own", kind="slow", lease=5.0)
        driver.enqueue("slow", kind="slow")
        driver.enqueue("usual", kind="quick")
        request = ClaimRequest(worker="w", limit=9, lease=30.0, lease_of_kind={"slow": 300.0})

        jobs = driver.store.claim(driver.queue, request).jobs

        now = driver.clock.now()
        assert {job.id: (job.deadline or 0.0) - now for job in jobs} == {
            "own": 5.0,
            "slow": 300.0,
            "usual": 30.0,
        }
        assert driver.get("slow").deadline == now + 300.0

    def test_the_lease_of_a_job_overrides_the_workers(self, driver: QueueDriver) -> None:
        driver.enqueue("own", lease=5.0)
        driver.enqueue("default")

        deadlines = {job.id: job.deadline for job in driver.claim_jobs(2, lease=40.0)}

        now = driver.clock.now()
        assert deadlines == {"own": now + 5.0, "default": now + 40.0}
        assert driver.get("own").deadline == now + 5.0

    def test_a_paused_queue_accepts_jobs_but_claims_return_none(self, driver: QueueDriver) -> None:
        driver.configure(paused=True)
        driver.enqueue("a")

        assert driver.claim_jobs(10) == []

        driver.configure(paused=False)
        assert driver.claim_ids() == ["a"]

    def test_a_paused_queue_still_settles(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.configure(paused=True)

        claimed = driver.claim(5, transitions=[complete(job, b"1", policy_of(job))])

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)]

    def test_a_claim_promotes_what_is_due(self, driver: QueueDriver) -> None:
        """Due jobs are claimed even if no maintenance runs."""
        driver.enqueue("scheduled", delay=10.0)
        driver.fail(driver.enqueue_and_claim("failing"), delay=10.0)
        driver.clock.advance(10.0)

        assert set(driver.claim_ids()) == {"scheduled", "failing"}

    def test_a_claim_promotes_nothing_early(self, driver: QueueDriver) -> None:
        """A job is never promoted early."""
        driver.enqueue("a", delay=10.0)
        driver.clock.advance(9.75)

        assert driver.claim_jobs(10) == []
        assert driver.state("a") is State.SCHEDULED

    def test_a_claim_returns_lapsed_leases(self, driver: QueueDriver) -> None:
        driver.enqueue_all(["a", "b"])
        first = driver.claim_one(lease=10.0)
        driver.claim_one(lease=20.0)
        driver.clock.advance(10.0)

        assert driver.claim(0).lapsed == [first.without_data()]

    def test_a_claim_on_a_paused_queue_returns_lapsed_leases(self, driver: QueueDriver) -> None:
        """A lapsed lease must not last as long as a pause does (river 1258)."""
        job = driver.enqueue_and_claim("a")
        driver.configure(paused=True)
        driver.clock.advance(LEASE)

        assert driver.claim(1).lapsed == [job.without_data()]

    def test_a_claim_returns_when_to_claim_next(self, driver: QueueDriver) -> None:
        now = driver.clock.now()
        driver.enqueue("a", delay=50.0)
        assert driver.claim(1).next_at == now + 50.0

        driver.enqueue("b")
        assert driver.claim(1, lease=20.0).next_at == now + 20.0

    def test_a_lapsed_lease_does_not_set_when_to_claim_next(self, driver: QueueDriver) -> None:
        """It may be impossible to expire: claimers would claim without a pause."""
        now = driver.clock.now()
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)

        claimed = driver.claim(1)
        assert [lapsed.id for lapsed in claimed.lapsed] == [job.id]
        assert claimed.next_at is None

        driver.enqueue("later", delay=50.0)
        assert driver.claim(1).next_at == now + LEASE + 50.0

    def test_a_paused_queue_does_not_set_when_to_claim_next(self, driver: QueueDriver) -> None:
        """Due jobs wait for the resume: claimers would claim without a pause."""
        now = driver.clock.now()
        driver.fail(driver.enqueue_and_claim("failing"))
        driver.enqueue("scheduled", delay=50.0)
        driver.configure(paused=True)
        driver.clock.advance(5.0)
        assert driver.claim(1).next_at is None
        driver.clock.advance(50.0)
        assert driver.claim(1).next_at is None

        driver.configure(paused=False)
        [job] = driver.claim_jobs(1, lease=20.0)
        driver.configure(paused=True)
        assert driver.claim(1).next_at == now + 75.0 == job.deadline

    def test_settling_and_claiming_are_one_call(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.enqueue("b")

        claimed = driver.claim(1, transitions=[complete(job, b"1", policy_of(job))])

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)]
        assert [job.id for job in claimed.jobs] == ["b"]

    def test_a_stale_settle_does_not_stop_the_claim_it_came_with(self, driver: QueueDriver) -> None:
        """Rule 2: the refused transition changes nothing, the claim goes on."""
        job = driver.enqueue_and_claim("a", max_attempts=9)
        driver.clock.advance(LEASE)
        driver.sweep()

        claimed = driver.claim(1, transitions=[complete(job, b"1", policy_of(job))])

        assert claimed.verdicts == [Verdict(False, State.QUEUED)]
        assert [job.id for job in claimed.jobs] == ["a"]

    def test_claims_of_a_queue_leave_others_alone(self, driver: QueueDriver) -> None:
        driver.other_queue("other").enqueue("a")

        assert driver.claim_jobs(10) == []


class TokenRules(StoreCase):
    """The fencing token grows with every lease of a queue, whatever happens in between."""

    def test_tokens_grow_from_lease_to_lease(self, driver: QueueDriver) -> None:
        tokens = []
        driver.enqueue("a", max_attempts=99)
        for _ in range(5):
            job = driver.claim_one()
            tokens.append(job.token)
            driver.apply_one(release(job, policy_of(job)))

        assert tokens == sorted(set(tokens))
        assert tokens[0] > 0

    def test_tokens_grow_across_cancel_and_enqueue_of_the_same_id(
        self, driver: QueueDriver
    ) -> None:
        """An abort of the old job must not affect the next one with its id (arq 485)."""
        old = driver.enqueue_and_claim("a")
        driver.apply_one(release(old, policy_of(old)))
        driver.apply_one(cancel("a", policy_of(old)))

        new = driver.enqueue_and_claim("a")

        assert new.token > old.token
        assert driver.complete(old) == Verdict(False, State.PROCESSING)

    def test_tokens_grow_across_the_replacement_of_a_failed_id(self, driver: QueueDriver) -> None:
        old = driver.dead_letter("a")

        new = driver.enqueue_and_claim("a")

        assert new.token > old.token
        assert driver.fail(old) == Verdict(False, State.PROCESSING)

    def test_tokens_grow_across_purge(self, driver: QueueDriver) -> None:
        old = driver.enqueue_and_claim("a")
        driver.store.purge(driver.queue, Filter(), 10)

        new = driver.enqueue_and_claim("a")

        assert new.token > old.token
        assert driver.complete(old) == Verdict(False, State.PROCESSING)

    def test_tokens_grow_across_retention(self, driver: QueueDriver) -> None:
        old = driver.enqueue_and_claim("a", result_ttl=0.0)
        driver.complete(old)
        driver.store.prune(driver.queue, 10)

        assert driver.enqueue_and_claim("a").token > old.token

    def test_tokens_grow_in_one_moment_of_many_claims(self, driver: QueueDriver) -> None:
        """The clock stands still: tokens must not depend on it alone."""
        driver.store.enqueue(driver.queue, [draft(str(n)) for n in range(50)])

        tokens = [driver.claim_one().token for _ in range(50)]

        assert tokens == sorted(set(tokens))
