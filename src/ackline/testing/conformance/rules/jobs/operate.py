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
    def test_a_waiting_job_is_cancelled(self, bench: QueueDriver, state: State) -> None:
        bench.put("a", delay=60.0 if state is State.SCHEDULED else 0.0)
        if state is State.FAILING:
            bench.fail(bench.take_one())

        verdict = bench.apply_one(cancel("a", policy_of(bench.get("a")), by="me"))

        assert verdict == Verdict(True, State.CANCELLED)
        assert bench.steps("a")[-1] == (Act.CANCEL, state, State.CANCELLED)
        assert bench.journal()[-1].by == "me"
        bench.clock.advance(3600.0)
        assert bench.take() == []

    def test_a_running_job_is_not_cancelled_from_outside(self, bench: QueueDriver) -> None:
        """Rule 2: without its token it can only be asked to stop."""
        job = bench.taken("a")

        assert bench.apply_one(cancel("a", policy_of(job))) == Verdict(False, State.PROCESSING)
        assert bench.apply_one(request_cancel("a")) == Verdict(True, State.PROCESSING)
        assert bench.complete(job) == Verdict(True, State.COMPLETED)

    def test_a_request_does_not_end_or_extend_the_lease(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.clock.advance(5.0)

        bench.apply_one(request_cancel("a"))

        assert bench.get("a").deadline == job.deadline

    @pytest.mark.parametrize("way", ["complete", "release"])
    def test_a_request_ends_with_the_lease_that_it_was_for(
        self, bench: QueueDriver, way: str
    ) -> None:
        job = bench.taken("a")
        bench.apply_one(request_cancel("a"))
        assert bench.get("a").cancel_requested

        if way == "complete":
            bench.complete(job)
        else:
            bench.apply_one(release(job, policy_of(job)))

        assert not bench.get("a").cancel_requested

    @pytest.mark.parametrize("way", ["release", "snooze", "fail", "expire"])
    def test_a_job_that_was_asked_to_stop_does_not_run_again(
        self, bench: QueueDriver, way: str
    ) -> None:
        """A request outlives the attempt during which it came, whether or not the worker saw it."""
        job = bench.taken("a", max_attempts=5)
        bench.apply_one(request_cancel("a"))

        match way:
            case "release":
                bench.apply_one(release(job, policy_of(job)))
            case "snooze":
                bench.apply_one(snooze(job, 5.0, policy_of(job)))
            case "fail":
                bench.fail(job)
            case _:
                bench.clock.advance(3600.0)
                bench.sweep()

        assert bench.state("a") is State.CANCELLED
        bench.clock.advance(3600.0)
        assert bench.take() == []

    @pytest.mark.parametrize("id", ["waiting", "unknown"])
    def test_only_a_running_job_can_be_asked(self, bench: QueueDriver, id: str) -> None:
        bench.put("waiting")

        assert not bench.apply_one(request_cancel(id)).applied

    def test_a_cancelled_job_stays_so(self, bench: QueueDriver) -> None:
        """Rule 3."""
        bench.put("a")
        step = cancel("a", policy_of(bench.get("a")))
        bench.apply_one(step)

        assert bench.apply_one(step) == Verdict(False, State.CANCELLED)
        assert bench.apply_one(redrive("a")) == Verdict(False, State.CANCELLED)
        assert len(bench.steps("a")) == 2


class RedriveRules(StoreCase):
    """Redrive moves, never copies; it keeps the options and resets the attempts."""

    def test_redrive_moves_the_job(self, bench: QueueDriver) -> None:
        """Not a copy (the keyval seed)."""
        bench.dead_letter("a", payload=b"x")

        assert bench.apply_one(redrive("a", by="me")) == Verdict(True, State.QUEUED)

        assert bench.counts() == {State.QUEUED: 1}
        assert bench.get("a").payload == b"x"
        assert bench.journal()[-1].by == "me"

    def test_redrive_resets_attempts_and_keeps_the_policy(self, bench: QueueDriver) -> None:
        """It has all its attempts again, and may go to the DLQ again (pg-boss 874)."""
        options = bench.dead_letter("a", max_attempts=1, keys_if_undelivered=(("k",),)).options
        bench.apply_one(redrive("a"))

        job = bench.take_one()

        assert (job.attempts, job.options) == (1, options)
        assert bench.fail(job) == Verdict(True, State.FAILED)

    def test_redrive_keeps_the_history(self, bench: QueueDriver) -> None:
        bench.dead_letter("a")
        bench.apply_one(redrive("a"))

        assert [ended.type for ended in bench.get("a").history] == ["ValueError"]

    def test_redrive_of_one_failure_only(self, bench: QueueDriver) -> None:
        """A redrive with the token of an older failure leaves the job unchanged."""
        first = bench.dead_letter("a", payload=b"x").token
        bench.apply_one(redrive("a"))
        change = Edit(payload=b"y", priority=9)

        assert bench.apply_one(redrive("a", token=first, change=change)) == Verdict(
            False, State.QUEUED
        )
        assert bench.fail(bench.take_one()).applied
        second = bench.get("a").token
        assert bench.apply_one(redrive("a", token=first, change=change)).applied is False
        assert (bench.get("a").payload, bench.get("a").priority) == (b"x", 5)

        assert bench.apply_one(redrive("a", token=second, change=change)) == Verdict(
            True, State.QUEUED
        )
        assert (bench.get("a").payload, bench.get("a").priority) == (b"y", 9)
        assert bench.journal()[-1].priority == 9
        assert bench.take_one().id == "a"

    def test_redrive_later(self, bench: QueueDriver) -> None:
        bench.dead_letter("a")

        verdict = bench.apply_one(redrive("a", 60.0))

        job = bench.get("a")
        assert verdict == Verdict(True, State.SCHEDULED)
        assert job.run_at == bench.clock.now() + 60.0
        assert (job.finished_at, job.expires_at) == (None, None)

    def test_a_redriven_job_outlives_the_retention_of_the_dlq(self, bench: QueueDriver) -> None:
        bench.dead_letter("a")
        bench.apply_one(redrive("a"))
        bench.clock.advance(366 * 86400.0)
        bench.store.prune(bench.queue, 100)

        assert bench.take_ids() == ["a"]

    def test_only_the_dlq_can_be_redriven(self, bench: QueueDriver) -> None:
        bench.put("waiting")
        bench.put("running", priority=9)
        bench.take_one()

        assert bench.apply(redrive("waiting"), redrive("running"), redrive("unknown")) == [
            Verdict(False, State.QUEUED),
            Verdict(False, State.PROCESSING),
            Verdict(False, None),
        ]


class EditRules(StoreCase):
    """A job that is not processing can be changed."""

    def test_payload_and_priority(self, bench: QueueDriver) -> None:
        bench.put_all("ab")

        verdict = bench.apply_one(edit("b", Edit(payload=b"new", priority=9), by="me"))

        assert verdict == Verdict(True, State.QUEUED)
        assert [(job.id, job.payload) for job in bench.take(2)] == [("b", b"new"), ("a", b"{}")]

    def test_an_empty_payload_is_a_payload(self, bench: QueueDriver) -> None:
        bench.put("a", payload=b"x")

        bench.apply_one(edit("a", Edit(payload=b"")))

        assert bench.get("a").payload == b""

    def test_a_lower_priority_keeps_the_time_waited(self, bench: QueueDriver) -> None:
        """Rule 8: a changed priority does not send the job to the end of the line."""
        bench.put("a", priority=9)
        bench.clock.advance(5.0)
        bench.put("b", priority=5)
        bench.apply_one(edit("a", Edit(priority=5)))

        assert bench.take_ids() == ["a", "b"]

    def test_a_priority_given_while_scheduled_counts_when_due(self, bench: QueueDriver) -> None:
        bench.put_all("ab", delay=10.0)
        bench.apply_one(edit("b", Edit(priority=9)))
        bench.clock.advance(10.0)

        assert bench.take_ids() == ["b", "a"]

    def test_a_delay_postpones_a_queued_job(self, bench: QueueDriver) -> None:
        bench.put("a")

        assert bench.apply_one(edit("a", Edit(delay=60.0))) == Verdict(True, State.SCHEDULED)

        assert bench.get("a").run_at == bench.clock.now() + 60.0
        assert bench.take() == []

    def test_a_delay_changes_when_a_waiting_job_is_due(self, bench: QueueDriver) -> None:
        bench.put("a", delay=1000.0)

        assert bench.apply_one(edit("a", Edit(delay=0.0))) == Verdict(True, State.SCHEDULED)
        assert bench.take_ids() == ["a"]

    def test_a_running_job_cannot_be_edited(self, bench: QueueDriver) -> None:
        job = bench.taken("a", payload=b"old")

        assert bench.apply_one(edit("a", Edit(payload=b"new"))) == Verdict(False, State.PROCESSING)
        assert bench.get("a") == job

    def test_a_terminal_job_can_be_kept_longer(self, bench: QueueDriver) -> None:
        """Retention is per job."""
        bench.complete(bench.taken("a", result_ttl=5.0))

        bench.apply_one(edit("a", Edit(keep=500.0)))
        bench.clock.advance(100.0)

        assert bench.get("a").result == b"1"

    def test_an_unknown_job_cannot_be_edited(self, bench: QueueDriver) -> None:
        assert bench.apply_one(edit("a", Edit(payload=b"x"))) == Verdict(False, None)


class EditExpectedRules(StoreCase):
    """An edit of a job as it was seen is refused if the job has changed since."""

    @pytest.mark.parametrize(
        "state", [State.QUEUED, State.SCHEDULED, State.FAILING, State.FAILED, State.COMPLETED]
    )
    def test_what_was_seen_is_edited_once(self, bench: QueueDriver, state: State) -> None:
        """The first of two editors who saw the same job wins; the other changes nothing."""
        self.bring(bench, "a", state)
        seen = expected_from(bench.get("a"))

        first = bench.apply_one(edit("a", Edit(payload=b"first"), seen=seen))
        second = bench.apply_one(edit("a", Edit(payload=b"second"), seen=seen))

        assert (first, second) == (Verdict(True, state), Verdict(False, state))
        assert bench.get("a").payload == b"first"

    def test_whoever_did_not_look_overwrites(self, bench: QueueDriver) -> None:
        """The control: without `seen`, the second edit is applied as well."""
        bench.put("a")

        verdicts = [
            bench.apply_one(edit("a", Edit(payload=data))) for data in (b"first", b"second")
        ]

        assert verdicts == [Verdict(True, State.QUEUED)] * 2
        assert bench.get("a").payload == b"second"

    @pytest.mark.parametrize("way", ["priority", "delay", "run", "promoted", "cancelled"])
    def test_any_change_counts(self, bench: QueueDriver, way: str) -> None:
        bench.put("a", delay=60.0 if way in ("delay", "promoted") else 0.0)
        seen = expected_from(bench.get("a"))
        match way:
            case "priority":
                bench.apply_one(edit("a", Edit(priority=9)))
            case "delay":
                bench.apply_one(edit("a", Edit(delay=600.0)))
            case "run":
                bench.apply_one(release(bench.take_one(), DEFAULTS))
            case "promoted":
                bench.clock.advance(60.0)
                bench.store.promote(bench.queue, 1)
            case _:
                bench.apply_one(cancel("a", policy_of(bench.get("a"))))
        before = bench.get("a")

        assert not bench.apply_one(edit("a", Edit(payload=b"mine"), seen=seen)).applied
        assert bench.get("a") == before

    def test_in_one_batch_too(self, bench: QueueDriver) -> None:
        bench.put_all("ab")
        seen = {id: expected_from(bench.get(id)) for id in "ab"}

        verdicts = bench.apply(
            edit("a", Edit(payload=b"1"), seen=seen["a"]),
            edit("b", Edit(payload=b"1"), seen=seen["b"]),
            edit("a", Edit(payload=b"2"), seen=seen["a"]),
        )

        assert [verdict.applied for verdict in verdicts] == [True, True, False]

    def bring(self, bench: QueueDriver, id: str, state: State) -> None:
        bench.put(id, delay=60.0 if state is State.SCHEDULED else 0.0, max_attempts=2)
        if state is State.COMPLETED:
            bench.complete(bench.take_one())
        if state in (State.FAILING, State.FAILED):
            bench.fail(bench.take_one(), delay=1.0)
        if state is State.FAILED:
            bench.clock.advance(1.0)
            bench.fail(bench.take_one())
        assert bench.state(id) is state


class PromoteRules(StoreCase):
    """Promote: when due, never early, once."""

    def test_promote_queues_what_is_due_and_nothing_else(self, bench: QueueDriver) -> None:
        bench.put("due", delay=10.0)
        bench.put("later", delay=10.25)
        bench.clock.advance(10.0)

        assert bench.store.promote(bench.queue, 100) == 1
        assert (bench.state("due"), bench.state("later")) == (State.QUEUED, State.SCHEDULED)

    def test_promote_happens_once(self, bench: QueueDriver) -> None:
        bench.put("a", delay=10.0)
        bench.clock.advance(10.0)

        assert [bench.store.promote(bench.queue, 100) for _ in range(2)] == [1, 0]
        assert bench.steps("a")[1:] == [(Act.PROMOTE, State.SCHEDULED, State.QUEUED)]

    def test_promote_is_bounded_and_takes_the_earliest(self, bench: QueueDriver) -> None:
        for id, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
            bench.put(id, delay=delay)
        bench.clock.advance(5.0)

        assert bench.store.promote(bench.queue, 2) == 2
        assert [bench.state(id) for id in "abc"] == [State.QUEUED, State.QUEUED, State.SCHEDULED]

    def test_promote_keeps_the_attempts_spent(self, bench: QueueDriver) -> None:
        bench.fail(bench.taken("a"), delay=1.0)
        bench.clock.advance(1.0)
        bench.store.promote(bench.queue, 100)

        assert bench.get("a").attempts == 1

    def test_promote_reaches_no_other_queue(self, bench: QueueDriver) -> None:
        other = bench.other_queue("other")
        other.put("a", delay=1.0)
        bench.put("b")
        bench.clock.advance(1.0)

        assert bench.store.promote(bench.queue, 100) == 0
        assert other.state("a") is State.SCHEDULED
