"""Groups: limits of concurrency."""

from __future__ import annotations

from typing import Literal, get_args

import pytest

from ackline.core.job import State
from ackline.core.lifecycle import Edit, cancel, complete, edit, move, release, snooze
from ackline.stores.contract import Filter
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import LEASE, QueueDriver, policy_of

Ending = Literal["complete", "fail", "release", "snooze", "expire", "purge"]
Leaving = Literal["cancel", "purge", "postpone", "move"]


class GroupRules(StoreCase):
    """At most `group_limit` jobs of a group run at once, and no group is ever stuck."""

    def test_one_of_a_group_runs_at_once(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc", group="g")

        assert driver.claim_ids() == ["a"]
        assert driver.claim_ids() == []
        assert driver.counts() == {State.PROCESSING: 1, State.QUEUED: 2}

    def test_the_limit_of_a_group_is_a_setting(self, driver: QueueDriver) -> None:
        driver.configure(group_limit=2)
        driver.enqueue_all("abc", group="g")

        assert driver.claim_ids() == ["a", "b"]

    def test_a_claim_may_ignore_the_limit(self, driver: QueueDriver) -> None:
        """As a relay does, whose jobs run elsewhere; other claims still respect it."""
        driver.enqueue_all("abcd", group="g")

        jobs = driver.claim_jobs(3, ignore_group_limit=True)

        assert [job.id for job in jobs] == ["a", "b", "c"]
        assert driver.claim_ids() == []
        driver.complete(jobs[0])
        driver.complete(jobs[1])
        assert driver.claim_ids() == []
        driver.complete(jobs[2])
        assert driver.claim_ids() == ["d"]

    def test_groups_do_not_block_each_other(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc", group="g")
        driver.enqueue_all("de", group="h")
        driver.enqueue("f")

        assert driver.claim_ids() == ["a", "d", "f"]

    def test_a_backlog_of_a_full_group_hides_nothing(self, driver: QueueDriver) -> None:
        """However long its backlog is."""
        driver.enqueue_all([f"g{n}" for n in range(1500)], group="g", priority=9)
        driver.enqueue("free", priority=0)

        assert driver.claim_ids(2) == ["g0", "free"]

    def test_jobs_behind_a_full_group_keep_their_order(self, driver: QueueDriver) -> None:
        """A claim that looks past the group may see more jobs than it takes."""
        driver.enqueue_all([f"g{n}" for n in range(20)], group="g")
        driver.enqueue_all("abcdef")

        assert driver.claim_ids(2) == ["g0", "a"]
        assert driver.claim_ids(2) == ["b", "c"]
        assert driver.claim_ids() == ["d", "e", "f"]

    def test_a_parked_job_can_be_edited_after_a_prune(self, driver: QueueDriver) -> None:
        """A prune deletes empty lists, possibly the list that the job belongs to."""
        driver.enqueue_all("ab", group="g")
        first = driver.claim_one()
        assert driver.claim_jobs() == []
        driver.store.prune(driver.queue, 10)

        assert driver.apply_one(edit("b", Edit(priority=9))).applied

        driver.complete(first)
        assert driver.claim_ids() == ["b"]

    def test_a_claim_that_settles_a_job_claims_the_next_of_its_group(
        self, driver: QueueDriver
    ) -> None:
        driver.enqueue_all("ab", group="g")
        [job] = driver.claim_jobs(2)  # this claim has seen that "b" must wait for its group
        driver.enqueue("c")

        claimed = driver.claim(transitions=[complete(job, None, policy_of(job))])

        assert [job.id for job in claimed.jobs] == ["b"]

    @pytest.mark.parametrize("way", get_args(Ending))
    def test_the_next_of_a_group_runs_when_one_ends(self, driver: QueueDriver, way: Ending) -> None:
        driver.enqueue_all("ab", group="g")
        job = driver.claim_one()
        assert driver.claim_jobs() == []

        match way:
            case "complete":
                driver.complete(job)
            case "fail":
                driver.fail(job)
            case "release":
                driver.apply_one(release(job, policy_of(job)))
                driver.apply_one(cancel("a", policy_of(job)))
            case "snooze":
                driver.apply_one(snooze(job, 60.0, policy_of(job)))
            case "expire":
                driver.clock.advance(LEASE)
                driver.sweep()
                driver.apply_one(cancel("a", policy_of(job)))
            case "purge":
                driver.store.purge(driver.queue, Filter(ids=frozenset("a")), 1)

        assert driver.claim_ids() == ["b"]

    @pytest.mark.parametrize("way", get_args(Leaving))
    def test_removing_the_next_of_a_group_does_not_block_the_rest(
        self, driver: QueueDriver, way: Leaving
    ) -> None:
        """The next job of the group is gone; those behind it must still run."""
        driver.enqueue_all("abc", group="g")
        job = driver.claim_one()
        assert driver.claim_jobs() == []
        driver.complete(job)

        match way:
            case "cancel":
                driver.apply_one(cancel("b", policy_of(job)))
            case "purge":
                driver.store.purge(driver.queue, Filter(ids=frozenset("b")), 1)
            case "postpone":
                driver.apply_one(edit("b", Edit(delay=3600.0)))
            case "move":
                driver.apply_one(move("b", driver.other_queue("other").queue))

        assert driver.claim_ids() == ["c"]

    @pytest.mark.parametrize(("id", "priority"), [("b", 0), ("c", 9)])
    def test_an_edit_changes_which_job_of_a_group_is_next(
        self, driver: QueueDriver, id: str, priority: int
    ) -> None:
        """Whether the edited job is the next one of its group, or waits behind it."""
        driver.enqueue_all("abc", group="g")
        job = driver.claim_one()
        assert driver.claim_jobs() == []
        driver.complete(job)

        driver.apply_one(edit(id, Edit(priority=priority)))

        assert driver.claim_ids() == ["c"]

    def test_cancelling_a_job_that_waits_for_its_group(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc", group="g")
        job = driver.claim_one()
        assert driver.claim_jobs() == []

        driver.apply_one(cancel("b", policy_of(job)))

        assert driver.claim_jobs() == []
        driver.complete(job)
        assert driver.claim_ids() == ["c"]
        assert driver.counts() == {State.COMPLETED: 1, State.CANCELLED: 1, State.PROCESSING: 1}

    def test_a_group_keeps_its_order(self, driver: QueueDriver) -> None:
        """Rule 8 inside a group."""
        for id, priority in (("a", 5), ("low", 1), ("high", 8), ("normal", 5)):
            driver.enqueue(id, priority=priority, group="g")
        served = []
        for _ in range(4):
            job = driver.claim_one()
            served.append(job.id)
            assert driver.claim_jobs() == []
            driver.complete(job)

        assert served == ["high", "a", "normal", "low"]

    def test_a_group_spans_kinds(self, driver: QueueDriver) -> None:
        driver.enqueue("m1", kind="mail", group="g")
        driver.enqueue("i1", kind="image", group="g")
        mail = driver.claim_one(kinds={"mail"})
        assert driver.claim_jobs(kinds={"image"}) == []

        driver.complete(mail)

        assert driver.claim_ids(kinds={"image"}) == ["i1"]

    def test_a_worker_of_one_kind_is_not_blocked_by_the_next_job_of_another(
        self, driver: QueueDriver
    ) -> None:
        """The next job of the group may be of a kind that this worker does not claim."""
        driver.enqueue("m1", kind="mail", group="g")
        driver.enqueue("i1", kind="image", group="g")
        driver.enqueue("m2", kind="mail", group="g")
        first = driver.claim_one(kinds={"mail"})
        assert driver.claim_jobs(10) == []

        driver.complete(first)

        assert driver.claim_ids(kinds={"mail"}) == ["m2"]

    def test_a_higher_limit_lets_parked_jobs_run(self, driver: QueueDriver) -> None:
        driver.enqueue_all("abc", group="g")
        driver.claim_one()
        assert driver.claim_jobs() == []

        driver.configure(group_limit=3)

        assert driver.claim_ids() == ["b", "c"]

    def test_a_moved_job_of_a_group_counts_where_it_runs(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.enqueue_all("ab", group="g")
        driver.claim_one()
        assert driver.claim_jobs() == []

        driver.apply_one(move("b", other.queue))

        assert other.claim_ids() == ["b"]

    def test_groups_are_per_queue(self, driver: QueueDriver) -> None:
        driver.enqueue_and_claim("a", group="g")

        assert driver.other_queue("other").enqueue_and_claim("a", group="g").id == "a"
        assert driver.other_queue("work", tenant="acme").enqueue_and_claim("a", group="g").id == "a"
