"""Groups: per-key concurrency."""

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
    """At most `group_limit` jobs of a group run at once, and no group is ever stranded."""

    def test_one_of_a_group_runs_at_once(self, bench: QueueDriver) -> None:
        bench.put_all("abc", group="g")

        assert bench.take_ids() == ["a"]
        assert bench.take_ids() == []
        assert bench.counts() == {State.PROCESSING: 1, State.QUEUED: 2}

    def test_the_limit_of_a_group_is_a_setting(self, bench: QueueDriver) -> None:
        bench.configure(group_limit=2)
        bench.put_all("abc", group="g")

        assert bench.take_ids() == ["a", "b"]

    def test_a_claim_may_ignore_the_limit(self, bench: QueueDriver) -> None:
        """As a relay does, whose jobs run elsewhere: for all others the limit holds on."""
        bench.put_all("abcd", group="g")

        jobs = bench.take(3, ignore_group_limit=True)

        assert [job.id for job in jobs] == ["a", "b", "c"]
        assert bench.take_ids() == []
        bench.complete(jobs[0])
        bench.complete(jobs[1])
        assert bench.take_ids() == []
        bench.complete(jobs[2])
        assert bench.take_ids() == ["d"]

    def test_groups_do_not_hold_up_each_other(self, bench: QueueDriver) -> None:
        bench.put_all("abc", group="g")
        bench.put_all("de", group="h")
        bench.put("f")

        assert bench.take_ids() == ["a", "d", "f"]

    def test_a_full_group_ahead_hides_nothing(self, bench: QueueDriver) -> None:
        """However long its backlog is (codeQ: past 100 k nothing could be claimed)."""
        bench.put_all([f"g{n}" for n in range(1500)], group="g", priority=9)
        bench.put("free", priority=0)

        assert bench.take_ids(2) == ["g0", "free"]

    def test_what_stands_behind_a_full_group_stays_in_line(self, bench: QueueDriver) -> None:
        """A claim that looks past the group may see more jobs than it takes."""
        bench.put_all([f"g{n}" for n in range(20)], group="g")
        bench.put_all("abcdef")

        assert bench.take_ids(2) == ["g0", "a"]
        assert bench.take_ids(2) == ["b", "c"]
        assert bench.take_ids() == ["d", "e", "f"]

    def test_a_job_held_back_can_be_edited_after_a_prune(self, bench: QueueDriver) -> None:
        """A prune deletes empty lines, possibly the line that the job belongs to."""
        bench.put_all("ab", group="g")
        first = bench.take_one()
        assert bench.take() == []
        bench.store.prune(bench.queue, 10)

        assert bench.apply_one(edit("b", Edit(priority=9))).applied

        bench.complete(first)
        assert bench.take_ids() == ["b"]

    def test_a_claim_takes_the_next_of_a_group_that_its_own_settling_leaves(
        self, bench: QueueDriver
    ) -> None:
        bench.put_all("ab", group="g")
        [job] = bench.take(2)  # this claim has seen that "b" must wait for its group
        bench.put("c")

        claimed = bench.claim(transitions=[complete(job, None, policy_of(job))])

        assert [job.id for job in claimed.jobs] == ["b"]

    @pytest.mark.parametrize("way", get_args(Ending))
    def test_the_next_of_a_group_runs_when_one_ends(self, bench: QueueDriver, way: Ending) -> None:
        bench.put_all("ab", group="g")
        job = bench.take_one()
        assert bench.take() == []

        match way:
            case "complete":
                bench.complete(job)
            case "fail":
                bench.fail(job)
            case "release":
                bench.apply_one(release(job, policy_of(job)))
                bench.apply_one(cancel("a", policy_of(job)))
            case "snooze":
                bench.apply_one(snooze(job, 60.0, policy_of(job)))
            case "expire":
                bench.clock.advance(LEASE)
                bench.sweep()
                bench.apply_one(cancel("a", policy_of(job)))
            case "purge":
                bench.store.purge(bench.queue, Filter(ids=frozenset("a")), 1)

        assert bench.take_ids() == ["b"]

    @pytest.mark.parametrize("way", get_args(Leaving))
    def test_taking_away_the_next_of_a_group_does_not_strand_the_rest(
        self, bench: QueueDriver, way: Leaving
    ) -> None:
        """The next job of the group is gone; those behind it must still get their turn."""
        bench.put_all("abc", group="g")
        job = bench.take_one()
        assert bench.take() == []
        bench.complete(job)

        match way:
            case "cancel":
                bench.apply_one(cancel("b", policy_of(job)))
            case "purge":
                bench.store.purge(bench.queue, Filter(ids=frozenset("b")), 1)
            case "postpone":
                bench.apply_one(edit("b", Edit(delay=3600.0)))
            case "move":
                bench.apply_one(move("b", bench.other_queue("other").queue))

        assert bench.take_ids() == ["c"]

    @pytest.mark.parametrize(("id", "priority"), [("b", 0), ("c", 9)])
    def test_an_edit_decides_anew_who_of_a_group_is_next(
        self, bench: QueueDriver, id: str, priority: int
    ) -> None:
        """Whether the edited job is the next one of its group, or waits behind it."""
        bench.put_all("abc", group="g")
        job = bench.take_one()
        assert bench.take() == []
        bench.complete(job)

        bench.apply_one(edit(id, Edit(priority=priority)))

        assert bench.take_ids() == ["c"]

    def test_cancelling_a_job_that_waits_for_its_group(self, bench: QueueDriver) -> None:
        bench.put_all("abc", group="g")
        job = bench.take_one()
        assert bench.take() == []

        bench.apply_one(cancel("b", policy_of(job)))

        assert bench.take() == []
        bench.complete(job)
        assert bench.take_ids() == ["c"]
        assert bench.counts() == {State.COMPLETED: 1, State.CANCELLED: 1, State.PROCESSING: 1}

    def test_the_line_of_a_group_is_kept(self, bench: QueueDriver) -> None:
        """Rule 8 inside a group."""
        for id, priority in (("a", 5), ("low", 1), ("high", 8), ("normal", 5)):
            bench.put(id, priority=priority, group="g")
        served = []
        for _ in range(4):
            job = bench.take_one()
            served.append(job.id)
            assert bench.take() == []
            bench.complete(job)

        assert served == ["high", "a", "normal", "low"]

    def test_a_group_spans_kinds(self, bench: QueueDriver) -> None:
        bench.put("m1", kind="mail", group="g")
        bench.put("i1", kind="image", group="g")
        mail = bench.take_one(kinds={"mail"})
        assert bench.take(kinds={"image"}) == []

        bench.complete(mail)

        assert bench.take_ids(kinds={"image"}) == ["i1"]

    def test_a_worker_of_one_kind_is_not_stopped_by_the_others_turn(
        self, bench: QueueDriver
    ) -> None:
        """The next job in the group's line may be of a kind that this worker does not want."""
        bench.put("m1", kind="mail", group="g")
        bench.put("i1", kind="image", group="g")
        bench.put("m2", kind="mail", group="g")
        first = bench.take_one(kinds={"mail"})
        assert bench.take(10) == []

        bench.complete(first)

        assert bench.take_ids(kinds={"mail"}) == ["m2"]

    def test_a_higher_limit_lets_the_waiting_run(self, bench: QueueDriver) -> None:
        bench.put_all("abc", group="g")
        bench.take_one()
        assert bench.take() == []

        bench.configure(group_limit=3)

        assert bench.take_ids() == ["b", "c"]

    def test_a_moved_job_of_a_group_counts_where_it_runs(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.put_all("ab", group="g")
        bench.take_one()
        assert bench.take() == []

        bench.apply_one(move("b", other.queue))

        assert other.take_ids() == ["b"]

    def test_groups_are_per_queue(self, bench: QueueDriver) -> None:
        bench.taken("a", group="g")

        assert bench.other_queue("other").taken("a", group="g").id == "a"
        assert bench.other_queue("work", tenant="acme").taken("a", group="g").id == "a"
