"""Settling: fenced, final, and safe to repeat."""

from __future__ import annotations

import random

import msgspec
import pytest

from ackline.core.events import Act
from ackline.core.job import DlqReason, State
from ackline.core.lifecycle import (
    Edit,
    Verdict,
    bury,
    cancel,
    cancel_running,
    complete,
    edit,
    extend,
    fail,
    move,
    progress,
    redrive,
    release,
    request_cancel,
    snooze,
)
from ackline.testing.conformance.case import StoreCase
from ackline.testing.conformance.driver import BACKOFF, LEASE, QueueDriver, failure, policy_of
from ackline.testing.fenced_transitions import fenced_transitions

_STEPS = fenced_transitions(policy_of, snoozed=60.0, extended=60.0, failure=failure)

SETTLING = {act: _STEPS[act] for act in ("complete", "fail", "bury", "snooze", "release", "stop")}
FENCED = SETTLING | {act: _STEPS[act] for act in ("extend", "progress", "expire")}

every_fenced_act = pytest.mark.parametrize("act", FENCED)
every_settling_act = pytest.mark.parametrize("act", SETTLING)


class FencingRules(StoreCase):
    """Rule 2: only the token of the lease permits the act; without it nothing changes."""

    @every_fenced_act
    def test_a_wrong_token_is_refused(self, driver: QueueDriver, act: str) -> None:
        job = driver.enqueue_and_claim("a")
        before = driver.get("a"), driver.journal()
        forged = msgspec.structs.replace(job, token=job.token + 1)

        verdict = driver.apply_one(FENCED[act](forged))

        assert verdict == Verdict(False, State.PROCESSING)
        assert (driver.get("a"), driver.journal()) == before

    @every_fenced_act
    def test_no_token_is_refused(self, driver: QueueDriver, act: str) -> None:
        """Acting by id alone would let a zombie settle its successor's attempt."""
        job = driver.enqueue_and_claim("a")
        before = driver.get("a"), driver.journal()
        unfenced = msgspec.structs.replace(FENCED[act](job), token=None)

        verdict = driver.apply_one(unfenced)

        assert verdict == Verdict(False, State.PROCESSING)
        assert (driver.get("a"), driver.journal()) == before

    @every_fenced_act
    def test_a_zombie_cannot_touch_its_successors_lease(
        self, driver: QueueDriver, act: str
    ) -> None:
        """The job was expired and runs on another worker now."""
        zombie = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        driver.sweep()
        driver.claim_one(worker="w2")
        before = driver.get("a"), driver.journal()

        verdict = driver.apply_one(FENCED[act](zombie))

        assert verdict == Verdict(False, State.PROCESSING)
        assert (driver.get("a"), driver.journal()) == before

    @every_fenced_act
    def test_a_zombie_is_refused_before_the_job_runs_again(
        self, driver: QueueDriver, act: str
    ) -> None:
        zombie = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)
        driver.sweep()
        before = driver.get("a"), driver.journal()

        # A repeated expire cannot be told from a zombie's: it alone is refused when repeated.
        verdict = driver.apply_one(FENCED[act](zombie))

        assert verdict.state is State.QUEUED
        assert not verdict.applied
        assert (driver.get("a"), driver.journal()) == before

    @every_fenced_act
    def test_a_job_that_is_gone_is_refused(self, driver: QueueDriver, act: str) -> None:
        job = driver.enqueue_and_claim("a", result_ttl=0.0)
        driver.complete(job)
        driver.store.prune(driver.queue, 10)

        assert driver.apply_one(FENCED[act](job)) == Verdict(False, None)

    @every_fenced_act
    def test_the_same_lease_in_another_queue_is_refused(
        self, driver: QueueDriver, act: str
    ) -> None:
        job = driver.enqueue_and_claim("a")
        driver.other_queue("other").enqueue_and_claim("a")

        verdict = driver.other_queue("third").apply_one(FENCED[act](job))

        assert verdict == Verdict(False, None)
        assert driver.state("a") is State.PROCESSING

    def test_a_lapsed_lease_that_nobody_swept_can_still_be_completed(
        self, driver: QueueDriver
    ) -> None:
        """The token still matches and the work is done, so refusing it would gain nothing."""
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE + 1)

        assert driver.complete(job) == Verdict(True, State.COMPLETED)
        assert driver.sweep() == []


class SettleRules(StoreCase):
    """Which state each act leads to, and what it stores with the job."""

    def test_complete_stores_the_result(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", result_ttl=60.0)
        driver.clock.advance(2.0)

        assert driver.complete(job, b'{"n":1}') == Verdict(True, State.COMPLETED)

        done = driver.get("a")
        now = driver.clock.now()
        assert (done.result, done.finished_at, done.expires_at) == (b'{"n":1}', now, now + 60.0)
        assert (done.attempts, done.deadline) == (1, None)

    @pytest.mark.parametrize("result", [None, b"null", b"", bytes(range(256))])
    def test_none_and_empty_are_results(self, driver: QueueDriver, result: bytes | None) -> None:
        """Rule 7: `None` is a result, and is not the same as empty bytes."""
        driver.complete(driver.enqueue_and_claim("a"), result)

        assert driver.get("a").result == result
        assert driver.enqueue("a").result == result

    def test_fail_waits_for_its_backoff(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")

        assert driver.fail(job) == Verdict(True, State.FAILING)
        assert driver.get("a").run_at == driver.clock.now() + BACKOFF

    def test_fail_stores_the_error(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(3.0)
        driver.fail(job)

        [ended] = driver.get("a").history
        assert (ended.act, ended.type, ended.message) == (Act.FAIL, "ValueError", "boom")
        assert (ended.attempt, ended.token, ended.worker) == (1, job.token, "w1")
        assert (ended.started_at, ended.at) == (job.started_at, driver.clock.now())

    def test_a_dead_job_skips_its_other_attempts(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", max_attempts=9)

        verdict = driver.apply_one(bury(job, failure(job), policy_of(job)))

        assert verdict == Verdict(True, State.FAILED)
        assert driver.get("a").failure == driver.get("a").history[-1]

    def test_a_dead_letter_says_why_it_is_one(self, driver: QueueDriver) -> None:
        used_up = driver.enqueue_and_claim("used up", max_attempts=1)
        driver.fail(used_up)
        given_up = driver.enqueue_and_claim("given up")
        driver.apply_one(bury(given_up, failure(given_up), policy_of(given_up)))
        retried = driver.enqueue_and_claim("retried")
        driver.fail(retried)

        reasons = [
            driver.get(id).history[0].dlq_reason for id in ("used up", "given up", "retried")
        ]

        assert reasons == [DlqReason.MAX_ATTEMPTS, DlqReason.DEAD, None]

    def test_release_gives_the_attempt_back(self, driver: QueueDriver) -> None:
        """Rule 5: attempts given back are not deliveries that count."""
        driver.enqueue("a", max_attempts=1)
        for _ in range(5):
            job = driver.claim_one()
            assert job.attempts == 1
            assert driver.apply_one(release(job, policy_of(job))) == Verdict(True, State.QUEUED)

        assert driver.get("a").attempts == 0

    def test_a_released_job_keeps_its_position(self, driver: QueueDriver) -> None:
        driver.enqueue("first")
        driver.clock.advance(1.0)
        driver.enqueue("second")
        job = driver.claim_one()
        driver.clock.advance(5.0)

        driver.apply_one(release(job, policy_of(job)))

        assert driver.claim_ids() == ["first", "second"]

    def test_snooze_gives_the_attempt_back_and_runs_later(self, driver: QueueDriver) -> None:
        """Rule 5."""
        job = driver.enqueue_and_claim("a", max_attempts=1)

        assert driver.apply_one(snooze(job, 60.0, policy_of(job))) == Verdict(True, State.SCHEDULED)

        assert driver.get("a").run_at == driver.clock.now() + 60.0
        assert driver.get("a").attempts == 0
        driver.clock.advance(60.0)
        assert driver.claim_one().attempts == 1

    def test_stop_ends_as_cancelled(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")

        verdict = driver.apply_one(cancel_running(job, "not wanted", policy_of(job)))

        assert verdict == Verdict(True, State.CANCELLED)
        assert driver.journal()[-1].note == "not wanted"

    def test_extend_sets_a_new_deadline(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(20.0)

        assert driver.apply_one(extend(job, 45.0)) == Verdict(True, State.PROCESSING)
        assert driver.get("a").deadline == driver.clock.now() + 45.0

    def test_extend_does_not_forget_that_a_job_was_asked_to_stop(self, driver: QueueDriver) -> None:
        job, other = driver.enqueue_and_claim("a"), driver.enqueue_and_claim("b")
        driver.apply_one(request_cancel("a"))

        driver.apply(extend(job, 45.0), extend(other, 45.0))

        assert driver.get("a").cancel_requested
        assert not driver.get("b").cancel_requested

    def test_extend_never_revives_a_lapsed_lease(self, driver: QueueDriver) -> None:
        """A lease past its deadline cannot be extended."""
        job = driver.enqueue_and_claim("a")
        driver.clock.advance(LEASE)

        assert driver.apply_one(extend(job, 45.0)) == Verdict(False, State.PROCESSING)
        assert driver.get("a").deadline == job.deadline

    def test_progress_is_kept_until_the_next_lease(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")

        assert driver.apply_one(progress(job, b"\x00half")) == Verdict(True, State.PROCESSING)
        assert driver.get("a").progress == b"\x00half"

        driver.apply_one(release(job, policy_of(job)))
        assert driver.claim_one().progress is None
        assert driver.get("a").progress is None

    def test_an_attempt_that_ended_leaves_no_lease(self, driver: QueueDriver) -> None:
        driver.fail(driver.enqueue_and_claim("a"))

        assert driver.get("a").deadline is None
        assert driver.store.leases(driver.queue, worker="w1") == []

    def test_part_of_a_batch_may_be_refused(self, driver: QueueDriver) -> None:
        """Rule 2: each transition is decided by itself."""
        driver.enqueue_all("abc")
        a, b, c = driver.claim_jobs(3)
        lost = msgspec.structs.replace(b, token=b.token + 1)

        verdicts = driver.apply(
            *(complete(job, b"1", policy_of(job)) for job in (a, lost, c)),
            complete(msgspec.structs.replace(a, id="unknown"), b"1", policy_of(a)),
        )

        assert verdicts == [
            Verdict(True, State.COMPLETED),
            Verdict(False, State.PROCESSING),
            Verdict(True, State.COMPLETED),
            Verdict(False, None),
        ]

    def test_each_of_a_batch_is_settled_in_its_own_way(self, driver: QueueDriver) -> None:
        """Transitions that differ only in their delay or their message."""
        driver.enqueue_all("abc")
        delays = {"a": 5.0, "b": 9.0, "c": 9.0}

        driver.apply(
            *(
                fail(job, failure(job, job.id), policy_of(job), random.Random(0), delays[job.id])
                for job in driver.claim_jobs(3)
            )
        )

        now, jobs = driver.clock.now(), [driver.get(id) for id in delays]
        assert [(job.run_at or 0.0) - now for job in jobs] == [5.0, 9.0, 9.0]
        assert [job.history[-1].message for job in jobs] == ["a", "b", "c"]

    def test_a_batch_of_different_kinds_and_groups_is_completed(self, driver: QueueDriver) -> None:
        for id, kind, group in (("a", "mail", "g"), ("b", "image", "h"), ("c", "mail", None)):
            driver.enqueue(id, kind=kind, group=group)
        driver.enqueue("next", kind="image", group="h")

        driver.apply(*(complete(job, None, policy_of(job)) for job in driver.claim_jobs(3)))

        recorded = [(event.id, event.kind) for event in driver.journal()[-3:]]
        assert recorded == [("a", "mail"), ("b", "image"), ("c", "mail")]
        assert driver.claim_ids() == ["next"]

    def test_a_batch_is_applied_in_its_order(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")

        verdicts = driver.apply(
            release(job, policy_of(job)),
            cancel("a", policy_of(job)),
            complete(job, b"1", policy_of(job)),
        )

        assert verdicts == [
            Verdict(True, State.QUEUED),
            Verdict(True, State.CANCELLED),
            Verdict(False, State.CANCELLED),
        ]

    def test_an_empty_batch_returns_nothing(self, driver: QueueDriver) -> None:
        assert driver.apply() == []


class AbsorbingRules(StoreCase):
    """Rule 3: terminal states are final; a job completes once."""

    @pytest.mark.parametrize("end", ["complete", "bury", "stop"])
    @every_settling_act
    def test_a_terminal_job_is_never_settled_again(
        self, driver: QueueDriver, end: str, act: str
    ) -> None:
        job = driver.enqueue_and_claim("a")
        driver.apply_one(SETTLING[end](job))
        before = driver.get("a"), driver.journal()

        verdict = driver.apply_one(SETTLING[act](job))

        same = act == end
        assert verdict == Verdict(same, before[0].state)
        assert (driver.get("a"), driver.journal()) == before

    def test_a_completed_job_cannot_be_cancelled_or_redriven(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.complete(job)

        refused = Verdict(False, State.COMPLETED)
        assert driver.apply(cancel("a", policy_of(job)), redrive("a")) == [refused, refused]

    def test_duplicates_within_a_batch_have_one_effect(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        done = complete(job, b"1", policy_of(job))

        assert driver.apply(done, done) == [Verdict(True, State.COMPLETED)] * 2
        assert [act for act, _, _ in driver.steps("a")].count(Act.COMPLETE) == 1
        assert driver.counts() == {State.COMPLETED: 1}


class RepeatRules(StoreCase):
    """Rule 12: settling again with the same token and outcome returns the same verdict."""

    @every_settling_act
    def test_a_repeated_settle_returns_the_same_and_changes_nothing(
        self, driver: QueueDriver, act: str
    ) -> None:
        job = driver.enqueue_and_claim("a")
        step = SETTLING[act](job)
        first = driver.apply_one(step)
        before = driver.get("a"), driver.journal(), driver.keys()

        assert driver.apply_one(step) == first
        assert (driver.get("a"), driver.journal(), driver.keys()) == before

    @every_settling_act
    def test_a_settle_of_a_job_that_was_asked_to_stop_can_be_repeated(
        self, driver: QueueDriver, act: str
    ) -> None:
        job = driver.enqueue_and_claim("a")
        driver.apply_one(request_cancel("a"))
        step = SETTLING[act](job)
        first = driver.apply_one(step)

        assert first == Verdict(True, State.COMPLETED if act == "complete" else State.CANCELLED)
        assert driver.apply_one(step) == first

    @every_settling_act
    def test_a_settle_repeated_with_a_claim_returns_the_same(
        self, driver: QueueDriver, act: str
    ) -> None:
        """The reply to a claim was lost: its transitions are sent again with the next claim."""
        job = driver.enqueue_and_claim("a")
        driver.enqueue("b")
        step = SETTLING[act](job)
        first = driver.apply_one(step)
        before = driver.get("a")

        claimed = driver.claim(1, kinds=[], transitions=[step])

        assert claimed.verdicts == [first]
        assert driver.get("a") == before
        assert driver.claim_ids(1, transitions=[step]) == ["a" if act == "release" else "b"]

    def test_another_end_of_the_same_lease_is_refused(self, driver: QueueDriver) -> None:
        """After an applied fail, a bury with its token is refused, also under the next lease."""
        job = driver.enqueue_and_claim("a")
        driver.apply_one(SETTLING["fail"](job))

        assert driver.apply_one(SETTLING["bury"](job)) == Verdict(False, State.FAILING)
        driver.clock.advance(BACKOFF)
        driver.claim_one()
        assert driver.apply_one(SETTLING["bury"](job)) == Verdict(False, State.PROCESSING)
        assert driver.apply_one(SETTLING["fail"](job)) == Verdict(True, State.PROCESSING)

    @pytest.mark.parametrize("act", ["fail", "snooze", "release"])
    def test_a_repeat_after_the_next_claim_touches_nothing(
        self, driver: QueueDriver, act: str
    ) -> None:
        """The reply was lost, the job ran again, and the settle is sent again."""
        job = driver.enqueue_and_claim("a")
        step = SETTLING[act](job)
        driver.apply_one(step)
        driver.clock.advance(60.0)
        driver.claim_one(worker="w2")
        before = driver.get("a"), driver.journal()

        assert driver.apply_one(step) == Verdict(True, State.PROCESSING)
        assert (driver.get("a"), driver.journal()) == before

    def test_a_repeat_after_many_later_attempts_is_known(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", max_attempts=99)
        step = SETTLING["fail"](job)
        driver.apply_one(step)
        for _ in range(20):
            driver.clock.advance(BACKOFF)
            driver.fail(driver.claim_one())

        assert driver.apply_one(step) == Verdict(True, State.FAILING)

    def test_another_result_is_refused(self, driver: QueueDriver) -> None:
        """The first result stands."""
        job = driver.enqueue_and_claim("a")
        driver.complete(job, b"1")

        assert driver.complete(job, b"2") == Verdict(False, State.COMPLETED)
        assert driver.complete(job, None) == Verdict(False, State.COMPLETED)
        assert driver.get("a").result == b"1"

    def test_a_repeat_does_not_write_its_keys_again(self, driver: QueueDriver) -> None:
        """Rule 3: a key that was deleted meanwhile must not come back."""
        job = driver.enqueue_and_claim("a", max_attempts=1, keys_if_undelivered=(("lost", "a"),))
        step = SETTLING["fail"](job)
        driver.apply_one(step)
        driver.write("lost", "a", value=None)

        assert driver.apply_one(step).applied
        assert driver.keys() == {}

    def test_a_repeat_after_redrive_is_known(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a", max_attempts=1)
        step = SETTLING["fail"](job)
        driver.apply_one(step)
        driver.apply_one(redrive("a"))

        assert driver.apply_one(step) == Verdict(True, State.QUEUED)
        assert driver.state("a") is State.QUEUED

    def test_a_repeat_after_an_edit_is_known(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        step = complete(job, b"1", policy_of(job))
        driver.apply_one(step)
        driver.apply_one(edit("a", Edit(keep=999.0)))

        assert driver.apply_one(step) == Verdict(True, State.COMPLETED)

    def test_a_repeat_reaches_a_job_only_where_it_is(self, driver: QueueDriver) -> None:
        job = driver.enqueue_and_claim("a")
        driver.apply_one(release(job, policy_of(job)))
        driver.apply_one(move("a", driver.other_queue("other").queue))

        assert driver.apply_one(release(job, policy_of(job))) == Verdict(False, None)
