"""Claiming: which job is leased, in which order, for how long."""

from __future__ import annotations

from ackline.core.job import State
from ackline.core.lifecycle import Verdict, cancel, complete, redrive, release
from ackline.stores.contract import ClaimRequest, Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, draft, policy_of


class OrderRules(StoreCase):
    """Rule 8: higher priority first, FIFO inside a priority, nobody starves."""

    def test_the_higher_priority_goes_first(self, bench: QueueDriver) -> None:
        for id, priority in (("low", 0), ("normal", 5), ("high", 9)):
            bench.put(id, priority=priority)

        assert bench.take_ids() == ["high", "normal", "low"]

    def test_first_in_first_out_inside_a_priority(self, bench: QueueDriver) -> None:
        bench.put_all(["c", "a"])
        bench.put("b")
        bench.clock.advance(1.0)
        bench.put("0")

        assert [bench.take_one().id for _ in range(4)] == ["c", "a", "b", "0"]

    def test_waiting_outweighs_priority_in_the_end(self, bench: QueueDriver) -> None:
        bench.configure(ageing=60.0)
        bench.put("old and low", priority=0)
        bench.clock.advance(9 * 60.0 + 1)
        bench.put("new and high", priority=9)

        assert bench.take_ids() == ["old and low", "new and high"]

    def test_waiting_less_than_a_step_of_priority_outweighs_nothing(
        self, bench: QueueDriver
    ) -> None:
        bench.configure(ageing=60.0)
        bench.put("old", priority=4)
        bench.clock.advance(59.0)
        bench.put("new", priority=5)

        assert bench.take_ids() == ["new", "old"]

    def test_the_lowest_is_served_under_a_steady_stream_of_the_highest(
        self, bench: QueueDriver
    ) -> None:
        bench.configure(ageing=1.0)
        bench.put("lowest", priority=0)
        served: list[str] = []
        for n in range(20):
            bench.put_all([f"{n}-a", f"{n}-b"], priority=9)
            served += bench.take_ids(1)
            bench.clock.advance(1.0)

        assert "lowest" in served

    def test_a_promoted_job_stands_in_line_by_the_time_it_was_due(self, bench: QueueDriver) -> None:
        bench.put("due first", delay=10.0)
        bench.put("due second", delay=20.0)
        bench.clock.advance(15.0)
        bench.put("queued between")
        bench.clock.advance(15.0)

        assert bench.take_ids() == ["due first", "queued between", "due second"]

    def test_an_order_across_kinds(self, bench: QueueDriver) -> None:
        """Kinds share one line unless a worker wants only some of them."""
        for id, kind, priority in (("1", "x", 1), ("2", "y", 9), ("3", "z", 5), ("4", "x", 9)):
            bench.put(id, kind=kind, priority=priority)

        assert bench.take_ids() == ["2", "4", "3", "1"]

    def test_a_redriven_job_joins_the_end(self, bench: QueueDriver) -> None:
        bench.dead_letter("old")
        bench.clock.advance(1.0)
        bench.put("waiting")
        bench.clock.advance(1.0)
        bench.apply_one(redrive("old"))

        assert bench.take_ids() == ["waiting", "old"]


class ClaimRules(StoreCase):
    """What a claim hands out, and what else it returns."""

    def test_a_claim_leases_in_one_step(self, bench: QueueDriver) -> None:
        """Rules 2 and 5: a new lease and a counted attempt, in one atomic step."""
        bench.put("a", payload=b"work")

        job = bench.take_one(worker="w7", lease=12.0)

        assert (job.state, job.attempts, job.worker) == (State.PROCESSING, 1, "w7")
        assert (job.payload, job.started_at) == (b"work", bench.clock.now())
        assert job.deadline == bench.clock.now() + 12.0
        assert bench.get("a") == job

    def test_a_claimed_job_is_found_by_its_worker_at_once(self, bench: QueueDriver) -> None:
        """No job is lost between pop and register (Sidekiq, Faktory, kombu, the seed)."""
        bench.put_all(["a", "b", "c"])
        bench.take_one(worker="other")

        jobs = bench.take(2, worker="w1")

        held = bench.store.leases(bench.queue, worker="w1")
        assert held == [job.without_data() for job in jobs]

    def test_a_leased_job_is_not_handed_out_again(self, bench: QueueDriver) -> None:
        """Rule 2: at most one live lease for each job."""
        bench.taken("a")

        assert bench.take(10) == []

    def test_a_lapsed_lease_is_not_handed_out_before_it_is_expired(
        self, bench: QueueDriver
    ) -> None:
        """Rule 5: else the crash would not be counted."""
        bench.taken("a")
        bench.clock.advance(LEASE)

        assert bench.take(10) == []

    def test_the_limit_holds(self, bench: QueueDriver) -> None:
        bench.put_all("abcde")

        assert len(bench.take(3)) == 3
        assert bench.counts() == {State.PROCESSING: 3, State.QUEUED: 2}

    def test_a_limit_of_zero_takes_nothing(self, bench: QueueDriver) -> None:
        bench.put("a")

        assert bench.take(0) == []
        assert bench.state("a") is State.QUEUED

    def test_an_empty_queue_answers_nothing(self, bench: QueueDriver) -> None:
        claimed = bench.claim(5)

        assert (claimed.jobs, claimed.lapsed, claimed.next_at) == ([], [], None)
        assert claimed.now == bench.clock.now()

    def test_only_the_wanted_kinds_are_handed_out(self, bench: QueueDriver) -> None:
        bench.put("m", kind="mail")
        bench.put("i", kind="image")
        bench.put("v", kind="video")

        assert bench.take_ids(kinds={"video", "mail", "unknown"}) == ["m", "v"]
        assert bench.state("i") is State.QUEUED

    def test_no_kinds_wanted_is_no_jobs(self, bench: QueueDriver) -> None:
        bench.put("a")

        assert bench.take_ids(kinds=set()) == []

    def test_unwanted_kinds_ahead_hide_nothing(self, bench: QueueDriver) -> None:
        """A long backlog of one kind does not stop the workers of another (codeQ)."""
        bench.put_all([f"other-{n}" for n in range(1500)], kind="other", priority=9)
        bench.put("mine", kind="mine", priority=0)

        assert bench.take_ids(kinds={"mine"}) == ["mine"]

    def test_the_lease_of_a_kind_outweighs_the_claims(self, bench: QueueDriver) -> None:
        bench.put("own", kind="slow", lease=5.0)
        bench.put("slow", kind="slow")
        bench.put("usual", kind="quick")
        request = ClaimRequest(worker="w", limit=9, lease=30.0, lease_of_kind={"slow": 300.0})

        jobs = bench.store.claim(bench.queue, request).jobs

        now = bench.clock.now()
        assert {job.id: (job.deadline or 0.0) - now for job in jobs} == {
            "own": 5.0,
            "slow": 300.0,
            "usual": 30.0,
        }
        assert bench.get("slow").deadline == now + 300.0

    def test_the_lease_of_a_job_outweighs_the_workers(self, bench: QueueDriver) -> None:
        bench.put("own", lease=5.0)
        bench.put("default")

        deadlines = {job.id: job.deadline for job in bench.take(2, lease=40.0)}

        now = bench.clock.now()
        assert deadlines == {"own": now + 5.0, "default": now + 40.0}
        assert bench.get("own").deadline == now + 5.0

    def test_a_paused_queue_hands_out_nothing_and_takes_everything(
        self, bench: QueueDriver
    ) -> None:
        bench.configure(paused=True)
        bench.put("a")

        assert bench.take(10) == []

        bench.configure(paused=False)
        assert bench.take_ids() == ["a"]

    def test_a_paused_queue_still_settles(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.configure(paused=True)

        claimed = bench.claim(5, transitions=[complete(job, b"1", policy_of(job))])

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)]

    def test_a_claim_promotes_what_is_due(self, bench: QueueDriver) -> None:
        """Due jobs are handed out even when no maintenance runs."""
        bench.put("scheduled", delay=10.0)
        bench.fail(bench.taken("failing"), delay=10.0)
        bench.clock.advance(10.0)

        assert set(bench.take_ids()) == {"scheduled", "failing"}

    def test_a_claim_promotes_nothing_early(self, bench: QueueDriver) -> None:
        """Promote: when due, never early."""
        bench.put("a", delay=10.0)
        bench.clock.advance(9.75)

        assert bench.take(10) == []
        assert bench.state("a") is State.SCHEDULED

    def test_a_claim_tells_what_has_lapsed(self, bench: QueueDriver) -> None:
        bench.put_all(["a", "b"])
        first = bench.take_one(lease=10.0)
        bench.take_one(lease=20.0)
        bench.clock.advance(10.0)

        assert bench.claim(0).lapsed == [first.without_data()]

    def test_a_paused_queue_still_tells_what_has_lapsed(self, bench: QueueDriver) -> None:
        """A lapsed lease must not last as long as a pause does (river 1258)."""
        job = bench.taken("a")
        bench.configure(paused=True)
        bench.clock.advance(LEASE)

        assert bench.claim(1).lapsed == [job.without_data()]

    def test_a_claim_tells_when_to_look_again(self, bench: QueueDriver) -> None:
        now = bench.clock.now()
        bench.put("a", delay=50.0)
        assert bench.claim(1).next_at == now + 50.0

        bench.put("b")
        assert bench.claim(1, lease=20.0).next_at == now + 20.0

    def test_a_lapsed_lease_is_no_reason_to_look_again(self, bench: QueueDriver) -> None:
        """It may be a lease that cannot be expired: claimers would ask without a pause."""
        now = bench.clock.now()
        job = bench.taken("a")
        bench.clock.advance(LEASE)

        claimed = bench.claim(1)
        assert [lapsed.id for lapsed in claimed.lapsed] == [job.id]
        assert claimed.next_at is None

        bench.put("later", delay=50.0)
        assert bench.claim(1).next_at == now + LEASE + 50.0

    def test_a_paused_queue_is_no_reason_to_look_again(self, bench: QueueDriver) -> None:
        """Due jobs wait for the resume there: else claimers would ask without a pause."""
        now = bench.clock.now()
        bench.fail(bench.taken("failing"))
        bench.put("scheduled", delay=50.0)
        bench.configure(paused=True)
        bench.clock.advance(5.0)
        assert bench.claim(1).next_at is None
        bench.clock.advance(50.0)
        assert bench.claim(1).next_at is None

        bench.configure(paused=False)
        [job] = bench.take(1, lease=20.0)
        bench.configure(paused=True)
        assert bench.claim(1).next_at == now + 75.0 == job.deadline

    def test_settling_and_claiming_are_one_call(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.put("b")

        claimed = bench.claim(1, transitions=[complete(job, b"1", policy_of(job))])

        assert claimed.verdicts == [Verdict(True, State.COMPLETED)]
        assert [job.id for job in claimed.jobs] == ["b"]

    def test_a_stale_settle_does_not_stop_the_claim_it_came_with(self, bench: QueueDriver) -> None:
        """Rule 2: the refused transition changes nothing, the claim goes on."""
        job = bench.taken("a", max_attempts=9)
        bench.clock.advance(LEASE)
        bench.sweep()

        claimed = bench.claim(1, transitions=[complete(job, b"1", policy_of(job))])

        assert claimed.verdicts == [Verdict(False, State.QUEUED)]
        assert [job.id for job in claimed.jobs] == ["a"]

    def test_claims_of_a_queue_leave_others_alone(self, bench: QueueDriver) -> None:
        bench.other_queue("other").put("a")

        assert bench.take(10) == []


class TokenRules(StoreCase):
    """The fencing token grows with every lease of a queue, whatever happens in between."""

    def test_tokens_grow_from_lease_to_lease(self, bench: QueueDriver) -> None:
        tokens = []
        bench.put("a", max_attempts=99)
        for _ in range(5):
            job = bench.take_one()
            tokens.append(job.token)
            bench.apply_one(release(job, policy_of(job)))

        assert tokens == sorted(set(tokens))
        assert tokens[0] > 0

    def test_tokens_grow_across_cancel_and_enqueue_of_the_same_id(self, bench: QueueDriver) -> None:
        """An abort of the old job must not reach the next one of its id (arq 485)."""
        old = bench.taken("a")
        bench.apply_one(release(old, policy_of(old)))
        bench.apply_one(cancel("a", policy_of(old)))

        new = bench.taken("a")

        assert new.token > old.token
        assert bench.complete(old) == Verdict(False, State.PROCESSING)

    def test_tokens_grow_across_the_replacement_of_a_failed_id(self, bench: QueueDriver) -> None:
        old = bench.dead_letter("a")

        new = bench.taken("a")

        assert new.token > old.token
        assert bench.fail(old) == Verdict(False, State.PROCESSING)

    def test_tokens_grow_across_purge(self, bench: QueueDriver) -> None:
        old = bench.taken("a")
        bench.store.purge(bench.queue, Filter(), 10)

        new = bench.taken("a")

        assert new.token > old.token
        assert bench.complete(old) == Verdict(False, State.PROCESSING)

    def test_tokens_grow_across_retention(self, bench: QueueDriver) -> None:
        old = bench.taken("a", result_ttl=0.0)
        bench.complete(old)
        bench.store.prune(bench.queue, 10)

        assert bench.taken("a").token > old.token

    def test_tokens_grow_in_one_moment_of_many_claims(self, bench: QueueDriver) -> None:
        """Time stands still here: tokens must not depend on the clock alone."""
        bench.store.enqueue(bench.queue, [draft(str(n)) for n in range(50)])

        tokens = [bench.take_one().token for _ in range(50)]

        assert tokens == sorted(set(tokens))
