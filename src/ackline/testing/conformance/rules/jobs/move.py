"""Jobs from one queue to another."""

from __future__ import annotations

from typing import Literal, get_args

import pytest

from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import Verdict, cancel, move
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, policy_of

Resting = Literal["scheduled", "failing", "completed", "failed", "cancelled"]


class MoveRules(StoreCase):
    """A move takes the whole job along, or is refused; both journals record it."""

    def test_a_queued_job_runs_where_it_was_moved(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.put("a", payload=b"x", kind="k", priority=7, max_attempts=9)
        before = bench.get("a")

        assert bench.apply_one(move("a", other.queue)) == Verdict(True, State.QUEUED)

        assert bench.state("a") is None
        assert other.get("a") == before
        assert other.take_one().payload == b"x"
        assert (bench.counts(), other.counts()) == ({}, {State.PROCESSING: 1})

    @pytest.mark.parametrize("state", get_args(Resting))
    def test_a_job_stays_in_its_state(self, bench: QueueDriver, state: Resting) -> None:
        other = bench.other_queue("other")
        match state:
            case "scheduled":
                bench.put("a", delay=60.0)
            case "failing":
                bench.fail(bench.taken("a"))
            case "completed":
                bench.complete(bench.taken("a"), b"result")
            case "failed":
                bench.dead_letter("a")
            case "cancelled":
                bench.put("a")
                bench.apply_one(cancel("a", policy_of(bench.get("a"))))
        before = bench.get("a")

        assert bench.apply_one(move("a", other.queue)) == Verdict(True, State(state))
        assert other.get("a") == before

    def test_an_id_that_is_taken_is_refused(self, bench: QueueDriver) -> None:
        """Neither of the two may be lost."""
        other = bench.other_queue("other")
        bench.put("a", payload=b"here")
        other.put("a", payload=b"there")

        assert bench.apply_one(move("a", other.queue)) == Verdict(False, State.QUEUED)
        assert (bench.get("a").payload, other.get("a").payload) == (b"here", b"there")

    def test_an_id_whose_job_has_ended_is_taken(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.complete(other.taken("a", payload=b"there"))
        bench.put("a", payload=b"here")

        assert bench.apply_one(move("a", other.queue)) == Verdict(False, State.QUEUED)
        assert (bench.get("a").payload, other.get("a").payload) == (b"here", b"there")

    def test_an_id_whose_retention_is_over_is_not_taken(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.complete(other.taken("a", result_ttl=1.0))
        bench.put("a", payload=b"here")
        bench.clock.advance(1.0)

        assert bench.apply_one(move("a", other.queue)) == Verdict(True, State.QUEUED)
        assert other.get("a").payload == b"here"
        assert other.counts() == {State.QUEUED: 1}

    def test_another_tenants_queue_is_refused(self, bench: QueueDriver) -> None:
        """Tenants stay separate, even if an operator makes a mistake."""
        foreign = bench.other_queue("other", tenant="somebody else")
        bench.put("a")

        assert bench.apply_one(move("a", foreign.queue)) == Verdict(False, State.QUEUED)
        assert foreign.find("a") is None

    def test_a_refused_move_does_not_make_the_other_queue(self, bench: QueueDriver) -> None:
        bench.taken("a")
        other = bench.other_queue("other")

        assert not bench.apply_one(move("a", other.queue)).applied
        assert bench.store.describe(other.queue.tenant, "other") == []

    def test_the_departure_is_told_before_the_arrival(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.put("a")

        bench.apply_one(move("a", other.queue))

        recorded = [(e.queue, e.source, e.to) for e in bench.store.events(None, None, 100)][-2:]
        assert recorded == [
            (bench.queue, State.QUEUED, None),
            (other.queue, None, State.QUEUED),
        ]

    def test_a_running_job_is_refused(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        other = bench.other_queue("other")

        assert bench.apply_one(move("a", other.queue)) == Verdict(False, State.PROCESSING)
        assert other.find("a") is None
        assert bench.complete(job).applied

    def test_a_move_to_where_it_is_changes_nothing(self, bench: QueueDriver) -> None:
        bench.put("a")

        assert bench.apply_one(move("a", bench.queue)) == Verdict(False, State.QUEUED)
        assert bench.counts() == {State.QUEUED: 1}

    def test_an_unknown_job_is_refused(self, bench: QueueDriver) -> None:
        assert bench.apply_one(move("a", bench.other_queue("other").queue)) == Verdict(False, None)

    def test_both_journals_tell_of_a_move(self, bench: QueueDriver) -> None:
        """Rule 14."""
        other = bench.other_queue("other")
        bench.put("a")

        bench.apply_one(move("a", other.queue, by="me"))

        assert bench.steps("a")[-1] == (Act.MOVE, State.QUEUED, None)
        assert other.steps("a") == [(Act.MOVE, None, State.QUEUED)]
        for event in (bench.journal()[-1], other.journal()[-1]):
            assert (event.moved_from, event.moved_to, event.by) == ("work", "other", "me")

    def test_a_job_can_be_enqueued_again_where_it_left(self, bench: QueueDriver) -> None:
        """Rule 6: dedup is per queue."""
        bench.put("a")
        bench.apply_one(move("a", bench.other_queue("other").queue))

        assert bench.put("a").accepted

    def test_a_job_can_be_moved_away_and_back(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.put("a")
        before = bench.get("a")

        bench.apply_one(move("a", other.queue))
        other.apply_one(move("a", bench.queue))

        assert bench.get("a") == before
        assert bench.take_ids() == ["a"]

    def test_history_moves_along(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        bench.dead_letter("a")
        before = bench.get("a").history

        bench.apply_one(move("a", other.queue))

        assert other.get("a").history == before

    def test_the_token_of_a_moved_job_still_grows(self, bench: QueueDriver) -> None:
        """A lease taken in the new queue must not repeat a token of the old one."""
        other = bench.other_queue("other")
        for n in range(5):
            bench.taken(str(n))
        old = bench.taken("a")
        bench.fail(old, delay=0.0)
        bench.apply_one(move("a", other.queue))

        assert other.take_one().token > old.token
