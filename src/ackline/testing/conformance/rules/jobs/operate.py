"""What operators do: cancel, redrive, edit, promote."""

from __future__ import annotations

import pytest

from ackline.core.config import DEFAULTS
from ackline.core.events import Act
from ackline.core.job import State
from ackline.core.lifecycle import (
    Edit,
    Verdict,
    cancel,
    edit,
    expected_from,
    redrive,
    release,
    request_cancel,
    snooze,
)
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import QueueDriver, policy_of


class CancelRules(StoreCase):
    """A waiting job is cancelled; a running job is asked to stop."""

    @pytest.mark.parametrize("state", [State.QUEUED, State.SCHEDULED, State.FAILING])
    def test_a_waiting_job_is_cancelled(self, driver: QueueDriver, state: State) -> None:
        driver.enqueue("a", delay=60.0 if state is State.SCHEDULED else 0.0)
        if state is State.FAILING:
            driver.fail(driver.claim_one())

        verdict = driver.apply_one(cancel("a", policy_of(driver.get("a")), by="me"))

        assert verdict == Verdict(True, State.CANCELLED)
        assert driver.steps("a")[-1] == (Act.CANCEL, state, State.CANCELLED)
        assert driver.journal()[-1].by == "me"
        driver.clock.advance(3600.0)
        assert driver.claim_jobs() == []

    def test_a_running_job_is_not_cancelled_from_outside(self, driver: QueueDriver) -> None:
        """Rule 2: without its token, a job can only be asked to stop."""
        job = driver.enqueue_and_claim("a")

        assert driver.apply_one(cancel("a", policy_of(job))) == Verdict(False, State.PROCESSING)
        assert driver.apply_one(request_cancel("a")) == Verdict(True, State.PROCESSING)
        assert driver.complete(job) == Verdict(True, State.COMPLETED)

    def test_a_request_does_not_end_or_extend_the_lease(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(5.0)

        driver.apply_one(request_cancel("a"))

        assert driver.get("a").deadline == job.deadline

    @pytest.mark.parametrize("way", ["complete", "release"])
    def test_a_request_ends_with_the_lease_that_it_was_for(
        self, driver: QueueDriver, way: str
    ) -> None:
        job = driver.enqueue_and_claim("a")
        driver.apply_one(request_cancel("a"))
        assert driver.get("a").cancel_requested

        if way == "complete":
            driver.complete(job)
        else:
            driver.apply_one(release(job, policy_of(job)))

        assert not driver.get("a").cancel_requested

    @pytest.mark.parametrize("way", ["release", "snooze", "fail", "expire"])
    def test_a_job_that_was_asked_to_stop_does_not_run_again(
        self, driver: QueueDriver, way: str
    ) -> None:
        """A request outlives its attempt, whether or not the worker noticed it."""
        job = driver.enqueue_and_claim("a", max_attempts=5)
        driver.apply_one(request_cancel("a"))

        match way:
            case "release":
                driver.apply_one(release(job, policy_of(job)))
            case "snooze":
                driver.apply_one(snooze(job, 5.0, policy_of(job)))
            case "fail":
                driver.fail(job)
            case _:
                driver.clock.advance(3600.0)
                driver.sweep()

        assert driver.state("a") is State.CANCELLED
        driver.clock.advance(3600.0)
        assert driver.claim_jobs() == []

    @pytest.mark.parametrize("id", ["waiting", "unknown"])
    def test_only_a_running_job_can_be_asked(self, driver: QueueDriver, id: str) -> None:
        driver.enqueue("waiting")

        assert not driver.apply_one(request_cancel(id)).applied

    def test_a_cancelled_job_stays_so(self, driver: QueueDriver) -> None:
        """Rule 3."""
        driver.enqueue("a")
        step = cancel("a", policy_of(driver.get("a")))
        driver.apply_one(step)

        assert driver.apply_one(step) == Verdict(False, State.CANCELLED)
        assert driver.apply_one(redrive("a")) == Verdict(False, State.CANCELLED)
        assert len(driver.steps("a")) == 2


class RedriveRules(StoreCase):
    """Redrive moves, never copies; it keeps the options and resets the attempts."""

    def test_redrive_moves_the_job(self, driver: QueueDriver) -> None:
        """It is not a copy."""
        driver.dead_letter("a", payload=b"x")

        assert driver.apply_one(redrive("a", by="me")) == Verdict(True, State.QUEUED)

        assert driver.counts() == {State.QUEUED: 1}
        assert driver.get("a").payload == b"x"
        assert driver.journal()[-1].by == "me"

    def test_redrive_resets_attempts_and_keeps_the_policy(self, driver: QueueDriver) -> None:
        """It has all its attempts again, and may return to the DLQ (pg-boss 874)."""
        options = driver.dead_letter("a", max_attempts=1, keys_if_undelivered=(("k",),)).options
        driver.apply_one(redrive("a"))

        job = driver.claim_one()

        assert (job.attempts, job.options) == (1, options)
        assert driver.fail(job) == Verdict(True, State.FAILED)

    def test_redrive_keeps_the_history(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")
        driver.apply_one(redrive("a"))

        assert [ended.type for ended in driver.get("a").history] == ["ValueError"]

    def test_redrive_of_one_failure_only(self, driver: QueueDriver) -> None:
        """A redrive with the token of an older failure leaves the job unchanged."""
        first = driver.dead_letter("a", payload=b"x").token
        driver.apply_one(redrive("a"))
        change = Edit(payload=b"y", priority=9)

        assert driver.apply_one(redrive("a", token=first, change=change)) == Verdict(
            False, State.QUEUED
        )
        assert driver.fail(driver.claim_one()).applied
        second = driver.get("a").token
        assert driver.apply_one(redrive("a", token=first, change=change)).applied is False
        assert (driver.get("a").payload, driver.get("a").priority) == (b"x", 5)

        assert driver.apply_one(redrive("a", token=second, change=change)) == Verdict(
            True, State.QUEUED
        )
        assert (driver.get("a").payload, driver.get("a").priority) == (b"y", 9)
        assert driver.journal()[-1].priority == 9
        assert driver.claim_one().id == "a"

    def test_redrive_later(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")

        verdict = driver.apply_one(redrive("a", 60.0))

        job = driver.get("a")
        assert verdict == Verdict(True, State.SCHEDULED)
        assert job.run_at == driver.clock.now() + 60.0
        assert (job.finished_at, job.expires_at) == (None, None)

    def test_a_redriven_job_outlives_the_retention_of_the_dlq(self, driver: QueueDriver) -> None:
        driver.dead_letter("a")
        driver.apply_one(redrive("a"))
        driver.clock.advance(366 * 86400.0)
        driver.store.prune(driver.queue, 100)

        assert driver.claim_ids() == ["a"]

    def test_only_the_dlq_can_be_redriven(self, driver: QueueDriver) -> None:
        driver.enqueue("waiting")
        driver.enqueue("running", priority=9)
        driver.claim_one()

        assert driver.apply(redrive("waiting"), redrive("running"), redrive("unknown")) == [
            Verdict(False, State.QUEUED),
            Verdict(False, State.PROCESSING),
            Verdict(False, None),
        ]


class EditRules(StoreCase):
    """A job that is not processing can be changed."""

    def test_payload_and_priority(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")

        verdict = driver.apply_one(edit("b", Edit(payload=b"new", priority=9), by="me"))

        assert verdict == Verdict(True, State.QUEUED)
        assert [(job.id, job.payload) for job in driver.claim_jobs(2)] == [
            ("b", b"new"),
            ("a", b"{}"),
        ]

    def test_an_empty_payload_is_a_payload(self, driver: QueueDriver) -> None:
        driver.enqueue("a", payload=b"x")

        driver.apply_one(edit("a", Edit(payload=b"")))

        assert driver.get("a").payload == b""

    def test_a_lower_priority_keeps_the_time_waited(self, driver: QueueDriver) -> None:
        """Rule 8: a changed priority does not send the job to the end of the queue."""
        driver.enqueue("a", priority=9)
        driver.clock.advance(5.0)
        driver.enqueue("b", priority=5)
        driver.apply_one(edit("a", Edit(priority=5)))

        assert driver.claim_ids() == ["a", "b"]

    def test_a_priority_set_while_scheduled_applies_when_due(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab", delay=10.0)
        driver.apply_one(edit("b", Edit(priority=9)))
        driver.clock.advance(10.0)

        assert driver.claim_ids() == ["b", "a"]

    def test_a_delay_postpones_a_queued_job(self, driver: QueueDriver) -> None:
        driver.enqueue("a")

        assert driver.apply_one(edit("a", Edit(delay=60.0))) == Verdict(True, State.SCHEDULED)

        assert driver.get("a").run_at == driver.clock.now() + 60.0
        assert driver.claim_jobs() == []

    def test_a_delay_changes_when_a_waiting_job_is_due(self, driver: QueueDriver) -> None:
        driver.enqueue("a", delay=1000.0)

        assert driver.apply_one(edit("a", Edit(delay=0.0))) == Verdict(True, State.SCHEDULED)
        assert driver.claim_ids() == ["a"]

    def test_a_running_job_cannot_be_edited(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", payload=b"old")

        assert driver.apply_one(edit("a", Edit(payload=b"new"))) == Verdict(False, State.PROCESSING)
        assert driver.get("a") == job

    def test_a_terminal_job_can_be_kept_longer(self, driver: QueueDriver) -> None:
        """Retention is per job."""
        driver.complete(driver.enqueue_and_claim("a", result_ttl=5.0))

        driver.apply_one(edit("a", Edit(keep=500.0)))
        driver.clock.advance(100.0)

        assert driver.get("a").result == b"1"

    def test_an_unknown_job_cannot_be_edited(self, driver: QueueDriver) -> None:
        assert driver.apply_one(edit("a", Edit(payload=b"x"))) == Verdict(False, None)


class EditExpectedRules(StoreCase):
    """An edit with an expected job is refused if the job has changed since."""

    @pytest.mark.parametrize(
        "state", [State.QUEUED, State.SCHEDULED, State.FAILING, State.FAILED, State.COMPLETED]
    )
    def test_of_two_edits_of_the_same_version_one_wins(
        self, driver: QueueDriver, state: State
    ) -> None:
        """The first of two editors who read the same job wins; the other changes nothing."""
        self.bring(driver, "a", state)
        seen = expected_from(driver.get("a"))

        first = driver.apply_one(edit("a", Edit(payload=b"first"), expected=seen))
        second = driver.apply_one(edit("a", Edit(payload=b"second"), expected=seen))

        assert (first, second) == (Verdict(True, state), Verdict(False, state))
        assert driver.get("a").payload == b"first"

    def test_an_edit_without_an_expected_job_overwrites(self, driver: QueueDriver) -> None:
        """The control: without `seen`, the second edit is applied as well."""
        driver.enqueue("a")

        verdicts = [
            driver.apply_one(edit("a", Edit(payload=data))) for data in (b"first", b"second")
        ]

        assert verdicts == [Verdict(True, State.QUEUED)] * 2
        assert driver.get("a").payload == b"second"

    @pytest.mark.parametrize("way", ["priority", "delay", "run", "promoted", "cancelled"])
    def test_any_change_refuses_the_edit(self, driver: QueueDriver, way: str) -> None:
        driver.enqueue("a", delay=60.0 if way in ("delay", "promoted") else 0.0)
        seen = expected_from(driver.get("a"))
        match way:
            case "priority":
                driver.apply_one(edit("a", Edit(priority=9)))
            case "delay":
                driver.apply_one(edit("a", Edit(delay=600.0)))
            case "run":
                driver.apply_one(release(driver.claim_one(), DEFAULTS))
            case "promoted":
                driver.clock.advance(60.0)
                driver.store.promote(driver.queue, 1)
            case _:
                driver.apply_one(cancel("a", policy_of(driver.get("a"))))
        before = driver.get("a")

        assert not driver.apply_one(edit("a", Edit(payload=b"mine"), expected=seen)).applied
        assert driver.get("a") == before

    def test_in_one_batch_too(self, driver: QueueDriver) -> None:
        driver.enqueue_all("ab")
        seen = {id: expected_from(driver.get(id)) for id in "ab"}

        verdicts = driver.apply(
            edit("a", Edit(payload=b"1"), expected=seen["a"]),
            edit("b", Edit(payload=b"1"), expected=seen["b"]),
            edit("a", Edit(payload=b"2"), expected=seen["a"]),
        )

        assert [verdict.applied for verdict in verdicts] == [True, True, False]

    def bring(self, driver: QueueDriver, id: str, state: State) -> None:
        driver.enqueue(id, delay=60.0 if state is State.SCHEDULED else 0.0, max_attempts=2)
        if state is State.COMPLETED:
            driver.complete(driver.claim_one())
        if state in (State.FAILING, State.FAILED):
            driver.fail(driver.claim_one(), delay=1.0)
        if state is State.FAILED:
            driver.clock.advance(1.0)
            driver.fail(driver.claim_one())
        assert driver.state(id) is state


class PromoteRules(StoreCase):
    """Jobs are promoted when they are due, never early, and once."""

    def test_promote_queues_what_is_due_and_nothing_else(self, driver: QueueDriver) -> None:
        driver.enqueue("due", delay=10.0)
        driver.enqueue("later", delay=10.25)
        driver.clock.advance(10.0)

        assert driver.store.promote(driver.queue, 100) == 1
        assert (driver.state("due"), driver.state("later")) == (State.QUEUED, State.SCHEDULED)

    def test_promote_happens_once(self, driver: QueueDriver) -> None:
        driver.enqueue("a", delay=10.0)
        driver.clock.advance(10.0)

        assert [driver.store.promote(driver.queue, 100) for _ in range(2)] == [1, 0]
        assert driver.steps("a")[1:] == [(Act.PROMOTE, State.SCHEDULED, State.QUEUED)]

    def test_promote_is_bounded_and_takes_the_earliest(self, driver: QueueDriver) -> None:
        for id, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
            driver.enqueue(id, delay=delay)
        driver.clock.advance(5.0)

        assert driver.store.promote(driver.queue, 2) == 2
        assert [driver.state(id) for id in "abc"] == [State.QUEUED, State.QUEUED, State.SCHEDULED]

    def test_promote_keeps_the_attempts_spent(self, driver: QueueDriver) -> None:
        driver.fail(driver.enqueue_and_claim("a"), delay=1.0)
        driver.clock.advance(1.0)
        driver.store.promote(driver.queue, 100)

        assert driver.get("a").attempts == 1

    def test_promote_reaches_no_other_queue(self, driver: QueueDriver) -> None:
        other = driver.other_queue("other")
        other.enqueue("a", delay=1.0)
        driver.enqueue("b")
        driver.clock.advance(1.0)

        assert driver.store.promote(driver.queue, 100) == 0
        assert other.state("a") is State.SCHEDULED
