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
    """A move keeps everything about the job, or is refused; both journals record it."""

    def test_a_queued_job_runs_where_it_was_moved(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.enqueue("a", payload=b"x", kind="k", priority=7, max_attempts=9)
        before = driver.get("a")

        assert driver.apply_one(move("a", other.queue)) == Verdict(True, State.QUEUED)

        assert driver.state("a") is None
        assert other.get("a") == before
        assert other.claim_one().payload == b"x"
        assert (driver.counts(), other.counts()) == ({}, {State.PROCESSING: 1})

    @pytest.mark.parametrize("state", get_args(Resting))
    def test_a_job_stays_in_its_state(self, driver: QueueDriver, state: Resting) -> None:
        other = driver.other_queue("other")
        match state:
            case "scheduled":
                driver.enqueue("a", delay=60.0)
            case "failing":
                driver.fail(driver.enqueue_and_claim("a"))
            case "completed":
                driver.complete(driver.enqueue_and_claim("a"), b"result")
            case "failed":
                driver.dead_letter("a")
            case "cancelled":
                driver.enqueue("a")
                driver.apply_one(cancel("a", policy_of(driver.get("a"))))
        before = driver.get("a")

        assert driver.apply_one(move("a", other.queue)) == Verdict(True, State(state))
        assert other.get("a") == before

    def test_an_id_that_is_taken_is_refused(self, driver: QueueDriver) -> None:
        """Neither of the two jobs may be lost."""
        other = driver.other_queue("other")
        driver.enqueue("a", payload=b"here")
        other.enqueue("a", payload=b"there")

        assert driver.apply_one(move("a", other.queue)) == Verdict(False, State.QUEUED)
        assert (driver.get("a").payload, other.get("a").payload) == (b"here", b"there")

    def test_an_id_whose_job_has_ended_is_taken(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.complete(other.enqueue_and_claim("a", payload=b"there"))
        driver.enqueue("a", payload=b"here")

        assert driver.apply_one(move("a", other.queue)) == Verdict(False, State.QUEUED)
        assert (driver.get("a").payload, other.get("a").payload) == (b"here", b"there")

    def test_an_id_whose_retention_is_over_is_not_taken(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.complete(other.enqueue_and_claim("a", result_ttl=1.0))
        driver.enqueue("a", payload=b"here")
        driver.clock.advance(1.0)

        assert driver.apply_one(move("a", other.queue)) == Verdict(True, State.QUEUED)
        assert other.get("a").payload == b"here"
        assert other.counts() == {State.QUEUED: 1}

    def test_another_tenants_queue_is_refused(self, driver: QueueDriver) -> None:
        """Tenants stay separate, even if an operator errs."""
        foreign = driver.other_queue("other", tenant="somebody else")
        driver.enqueue("a")

        assert driver.apply_one(move("a", foreign.queue)) == Verdict(False, State.QUEUED)
        assert foreign.find("a") is None

    def test_a_refused_move_does_not_make_the_other_queue(self, driver: QueueDriver) -> None:
        driver.enqueue_and_claim("a")
        other = driver.other_queue("other")

        assert not driver.apply_one(move("a", other.queue)).applied
        assert driver.store.describe(other.queue.tenant, "other") == []

    def test_the_departure_is_recorded_before_the_arrival(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.enqueue("a")

        driver.apply_one(move("a", other.queue))

        recorded = [(e.queue, e.source, e.to) for e in driver.store.events(None, None, 100)][-2:]
        assert recorded == [
            (driver.queue, State.QUEUED, None),
            (other.queue, None, State.QUEUED),
        ]

    def test_a_running_job_is_refused(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        other = driver.other_queue("other")

        assert driver.apply_one(move("a", other.queue)) == Verdict(False, State.PROCESSING)
        assert other.find("a") is None
        assert driver.complete(job).applied

    def test_a_move_to_the_same_queue_changes_nothing(self, driver: QueueDriver) -> None:
        driver.enqueue("a")

        assert driver.apply_one(move("a", driver.queue)) == Verdict(False, State.QUEUED)
        assert driver.counts() == {State.QUEUED: 1}

    def test_an_unknown_job_is_refused(self, driver: QueueDriver) -> None:
        assert driver.apply_one(move("a", driver.other_queue("other").queue)) == Verdict(
            False, None
        )

    def test_both_journals_record_a_move(self, driver: QueueDriver) -> None:
        """Rule 14."""
        other = driver.other_queue("other")
        driver.enqueue("a")

        driver.apply_one(move("a", other.queue, by="me"))

        assert driver.steps("a")[-1] == (Act.MOVE, State.QUEUED, None)
        assert other.steps("a") == [(Act.MOVE, None, State.QUEUED)]
        for event in (driver.journal()[-1], other.journal()[-1]):
            assert (event.moved_from, event.moved_to, event.by) == ("work", "other", "me")

    def test_a_job_can_be_enqueued_again_where_it_left(self, driver: QueueDriver) -> None:
        """Rule 6: dedup is per queue."""
        driver.enqueue("a")
        driver.apply_one(move("a", driver.other_queue("other").queue))

        assert driver.enqueue("a").accepted

    def test_a_job_can_be_moved_away_and_back(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.enqueue("a")
        before = driver.get("a")

        driver.apply_one(move("a", other.queue))
        other.apply_one(move("a", driver.queue))

        assert driver.get("a") == before
        assert driver.claim_ids() == ["a"]

    def test_history_moves_along(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        driver.dead_letter("a")
        before = driver.get("a").history

        driver.apply_one(move("a", other.queue))

        assert other.get("a").history == before

    def test_the_token_of_a_moved_job_still_grows(self, driver: QueueDriver) -> None:
        """A lease in the new queue must not repeat a token of the old one."""
        other = driver.other_queue("other")
        for n in range(5):
            driver.enqueue_and_claim(str(n))
        old = driver.enqueue_and_claim("a")
        driver.fail(old, delay=0.0)
        driver.apply_one(move("a", other.queue))

        assert other.claim_one().token > old.token
