"""Settling: fenced, absorbing, and safe to send again."""

from __future__ import annotations

import random

import msgspec
import pytest

from ackline.core.events import Act
from ackline.core.job import State
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
    """Rule 2: only the holder of the lease's token may act; for all others nothing changes."""

    @every_fenced_act
    def test_a_wrong_token_is_refused(self, bench: QueueDriver, act: str) -> None:
        job = bench.taken("a")
        before = bench.get("a"), bench.journal()
        forged = msgspec.structs.replace(job, token=job.token + 1)

        verdict = bench.apply_one(FENCED[act](forged))

        assert verdict == Verdict(False, State.PROCESSING)
        assert (bench.get("a"), bench.journal()) == before

    @every_fenced_act
    def test_no_token_is_refused(self, bench: QueueDriver, act: str) -> None:
        """An act by id alone is what lets a zombie settle its successor's attempt."""
        job = bench.taken("a")
        before = bench.get("a"), bench.journal()
        unfenced = msgspec.structs.replace(FENCED[act](job), token=None)

        verdict = bench.apply_one(unfenced)

        assert verdict == Verdict(False, State.PROCESSING)
        assert (bench.get("a"), bench.journal()) == before

    @every_fenced_act
    def test_a_zombie_cannot_touch_its_successors_lease(self, bench: QueueDriver, act: str) -> None:
        """The job was expired and is run by another worker now."""
        zombie = bench.taken("a")
        bench.clock.advance(LEASE)
        bench.sweep()
        bench.take_one(worker="w2")
        before = bench.get("a"), bench.journal()

        verdict = bench.apply_one(FENCED[act](zombie))

        assert verdict == Verdict(False, State.PROCESSING)
        assert (bench.get("a"), bench.journal()) == before

    @every_fenced_act
    def test_a_zombie_is_refused_before_the_job_runs_again(
        self, bench: QueueDriver, act: str
    ) -> None:
        zombie = bench.taken("a")
        bench.clock.advance(LEASE)
        bench.sweep()
        before = bench.get("a"), bench.journal()

        # A repeated expire looks like a zombie's: it is the one act that is refused when repeated.
        verdict = bench.apply_one(FENCED[act](zombie))

        assert verdict.state is State.QUEUED
        assert not verdict.applied
        assert (bench.get("a"), bench.journal()) == before

    @every_fenced_act
    def test_a_job_that_is_gone_is_refused(self, bench: QueueDriver, act: str) -> None:
        job = bench.taken("a", result_ttl=0.0)
        bench.complete(job)
        bench.store.prune(bench.queue, 10)

        assert bench.apply_one(FENCED[act](job)) == Verdict(False, None)

    @every_fenced_act
    def test_the_same_lease_in_another_queue_is_refused(self, bench: QueueDriver, act: str) -> None:
        job = bench.taken("a")
        bench.other_queue("other").taken("a")

        verdict = bench.other_queue("third").apply_one(FENCED[act](job))

        assert verdict == Verdict(False, None)
        assert bench.state("a") is State.PROCESSING

    def test_a_lapsed_lease_that_nobody_swept_can_still_be_completed(
        self, bench: QueueDriver
    ) -> None:
        """The token still matches, and the work is done: nothing is gained by refusing it."""
        job = bench.taken("a")
        bench.clock.advance(LEASE + 1)

        assert bench.complete(job) == Verdict(True, State.COMPLETED)
        assert bench.sweep() == []


class SettleRules(StoreCase):
    """Which state each act leads to, and what it stores with the job."""

    def test_complete_stores_the_result(self, bench: QueueDriver) -> None:
        job = bench.taken("a", result_ttl=60.0)
        bench.clock.advance(2.0)

        assert bench.complete(job, b'{"n":1}') == Verdict(True, State.COMPLETED)

        done = bench.get("a")
        now = bench.clock.now()
        assert (done.result, done.finished_at, done.expires_at) == (b'{"n":1}', now, now + 60.0)
        assert (done.attempts, done.deadline) == (1, None)

    @pytest.mark.parametrize("result", [None, b"null", b"", bytes(range(256))])
    def test_none_and_empty_are_results(self, bench: QueueDriver, result: bytes | None) -> None:
        """Rule 7: `None` is a result, and is not the same as empty bytes."""
        bench.complete(bench.taken("a"), result)

        assert bench.get("a").result == result
        assert bench.put("a").result == result

    def test_fail_waits_for_its_backoff(self, bench: QueueDriver) -> None:
        job = bench.taken("a")

        assert bench.fail(job) == Verdict(True, State.FAILING)
        assert bench.get("a").run_at == bench.clock.now() + BACKOFF

    def test_fail_remembers_the_error(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.clock.advance(3.0)
        bench.fail(job)

        [ended] = bench.get("a").history
        assert (ended.act, ended.type, ended.message) == (Act.FAIL, "ValueError", "boom")
        assert (ended.attempt, ended.token, ended.worker) == (1, job.token, "w1")
        assert (ended.started_at, ended.at) == (job.started_at, bench.clock.now())

    def test_a_dead_job_skips_its_other_attempts(self, bench: QueueDriver) -> None:
        job = bench.taken("a", max_attempts=9)

        verdict = bench.apply_one(bury(job, failure(job), policy_of(job)))

        assert verdict == Verdict(True, State.FAILED)
        assert bench.get("a").failure == bench.get("a").history[-1]

    def test_release_gives_the_attempt_back(self, bench: QueueDriver) -> None:
        """Rule 5: attempts given back are not deliveries that count."""
        bench.put("a", max_attempts=1)
        for _ in range(5):
            job = bench.take_one()
            assert job.attempts == 1
            assert bench.apply_one(release(job, policy_of(job))) == Verdict(True, State.QUEUED)

        assert bench.get("a").attempts == 0

    def test_a_released_job_has_its_old_place(self, bench: QueueDriver) -> None:
        bench.put("first")
        bench.clock.advance(1.0)
        bench.put("second")
        job = bench.take_one()
        bench.clock.advance(5.0)

        bench.apply_one(release(job, policy_of(job)))

        assert bench.take_ids() == ["first", "second"]

    def test_snooze_gives_the_attempt_back_and_runs_later(self, bench: QueueDriver) -> None:
        """Rule 5."""
        job = bench.taken("a", max_attempts=1)

        assert bench.apply_one(snooze(job, 60.0, policy_of(job))) == Verdict(True, State.SCHEDULED)

        assert bench.get("a").run_at == bench.clock.now() + 60.0
        assert bench.get("a").attempts == 0
        bench.clock.advance(60.0)
        assert bench.take_one().attempts == 1

    def test_stop_ends_as_cancelled(self, bench: QueueDriver) -> None:
        job = bench.taken("a")

        verdict = bench.apply_one(cancel_running(job, "not wanted", policy_of(job)))

        assert verdict == Verdict(True, State.CANCELLED)
        assert bench.journal()[-1].note == "not wanted"

    def test_extend_sets_a_new_deadline(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.clock.advance(20.0)

        assert bench.apply_one(extend(job, 45.0)) == Verdict(True, State.PROCESSING)
        assert bench.get("a").deadline == bench.clock.now() + 45.0

    def test_extend_does_not_forget_that_a_job_was_asked_to_stop(self, bench: QueueDriver) -> None:
        job, other = bench.taken("a"), bench.taken("b")
        bench.apply_one(request_cancel("a"))

        bench.apply(extend(job, 45.0), extend(other, 45.0))

        assert bench.get("a").cancel_requested
        assert not bench.get("b").cancel_requested

    def test_extend_never_revives_a_lapsed_lease(self, bench: QueueDriver) -> None:
        """Extend: a new deadline, but not for a lease that has run out."""
        job = bench.taken("a")
        bench.clock.advance(LEASE)

        assert bench.apply_one(extend(job, 45.0)) == Verdict(False, State.PROCESSING)
        assert bench.get("a").deadline == job.deadline

    def test_progress_is_kept_until_the_next_lease(self, bench: QueueDriver) -> None:
        job = bench.taken("a")

        assert bench.apply_one(progress(job, b"\x00half")) == Verdict(True, State.PROCESSING)
        assert bench.get("a").progress == b"\x00half"

        bench.apply_one(release(job, policy_of(job)))
        assert bench.take_one().progress is None
        assert bench.get("a").progress is None

    def test_an_attempt_that_ended_leaves_no_lease(self, bench: QueueDriver) -> None:
        bench.fail(bench.taken("a"))

        assert bench.get("a").deadline is None
        assert bench.store.leases(bench.queue, worker="w1") == []

    def test_part_of_a_batch_may_be_refused(self, bench: QueueDriver) -> None:
        """Rule 2: each transition is decided by itself."""
        bench.put_all("abc")
        a, b, c = bench.take(3)
        lost = msgspec.structs.replace(b, token=b.token + 1)

        verdicts = bench.apply(
            *(complete(job, b"1", policy_of(job)) for job in (a, lost, c)),
            complete(msgspec.structs.replace(a, id="unknown"), b"1", policy_of(a)),
        )

        assert verdicts == [
            Verdict(True, State.COMPLETED),
            Verdict(False, State.PROCESSING),
            Verdict(True, State.COMPLETED),
            Verdict(False, None),
        ]

    def test_each_of_a_batch_is_settled_in_its_own_way(self, bench: QueueDriver) -> None:
        """Neighbours that differ only in their delay or their message."""
        bench.put_all("abc")
        delays = {"a": 5.0, "b": 9.0, "c": 9.0}

        bench.apply(
            *(
                fail(job, failure(job, job.id), policy_of(job), random.Random(0), delays[job.id])
                for job in bench.take(3)
            )
        )

        now, jobs = bench.clock.now(), [bench.get(id) for id in delays]
        assert [(job.run_at or 0.0) - now for job in jobs] == [5.0, 9.0, 9.0]
        assert [job.history[-1].message for job in jobs] == ["a", "b", "c"]

    def test_a_batch_of_different_kinds_and_groups_is_completed(self, bench: QueueDriver) -> None:
        for id, kind, group in (("a", "mail", "g"), ("b", "image", "h"), ("c", "mail", None)):
            bench.put(id, kind=kind, group=group)
        bench.put("next", kind="image", group="h")

        bench.apply(*(complete(job, None, policy_of(job)) for job in bench.take(3)))

        recorded = [(event.id, event.kind) for event in bench.journal()[-3:]]
        assert recorded == [("a", "mail"), ("b", "image"), ("c", "mail")]
        assert bench.take_ids() == ["next"]

    def test_a_batch_is_applied_in_its_order(self, bench: QueueDriver) -> None:
        job = bench.taken("a")

        verdicts = bench.apply(
            release(job, policy_of(job)),
            cancel("a", policy_of(job)),
            complete(job, b"1", policy_of(job)),
        )

        assert verdicts == [
            Verdict(True, State.QUEUED),
            Verdict(True, State.CANCELLED),
            Verdict(False, State.CANCELLED),
        ]

    def test_an_empty_batch_answers_nothing(self, bench: QueueDriver) -> None:
        assert bench.apply() == []


class AbsorbingRules(StoreCase):
    """Rule 3: terminal states absorb; one completion effect."""

    @pytest.mark.parametrize("end", ["complete", "bury", "stop"])
    @every_settling_act
    def test_a_terminal_job_is_never_settled_otherwise(
        self, bench: QueueDriver, end: str, act: str
    ) -> None:
        job = bench.taken("a")
        bench.apply_one(SETTLING[end](job))
        before = bench.get("a"), bench.journal()

        verdict = bench.apply_one(SETTLING[act](job))

        same = act == end
        assert verdict == Verdict(same, before[0].state)
        assert (bench.get("a"), bench.journal()) == before

    def test_a_completed_job_cannot_be_cancelled_or_redriven(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.complete(job)

        refused = Verdict(False, State.COMPLETED)
        assert bench.apply(cancel("a", policy_of(job)), redrive("a")) == [refused, refused]

    def test_duplicates_within_a_batch_have_one_effect(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        done = complete(job, b"1", policy_of(job))

        assert bench.apply(done, done) == [Verdict(True, State.COMPLETED)] * 2
        assert [act for act, _, _ in bench.steps("a")].count(Act.COMPLETE) == 1
        assert bench.counts() == {State.COMPLETED: 1}


class RepeatRules(StoreCase):
    """Rule 12: settling again with the same token and outcome answers the same."""

    @every_settling_act
    def test_a_repeated_settle_answers_the_same_and_changes_nothing(
        self, bench: QueueDriver, act: str
    ) -> None:
        job = bench.taken("a")
        step = SETTLING[act](job)
        first = bench.apply_one(step)
        before = bench.get("a"), bench.journal(), bench.keys()

        assert bench.apply_one(step) == first
        assert (bench.get("a"), bench.journal(), bench.keys()) == before

    @every_settling_act
    def test_a_settle_of_a_job_that_was_asked_to_stop_can_be_repeated(
        self, bench: QueueDriver, act: str
    ) -> None:
        job = bench.taken("a")
        bench.apply_one(request_cancel("a"))
        step = SETTLING[act](job)
        first = bench.apply_one(step)

        assert first == Verdict(True, State.COMPLETED if act == "complete" else State.CANCELLED)
        assert bench.apply_one(step) == first

    @every_settling_act
    def test_a_settle_that_is_repeated_with_a_claim_answers_the_same(
        self, bench: QueueDriver, act: str
    ) -> None:
        """The answer of a claim was lost: its transitions are sent again with the next claim."""
        job = bench.taken("a")
        bench.put("b")
        step = SETTLING[act](job)
        first = bench.apply_one(step)
        before = bench.get("a")

        claimed = bench.claim(1, kinds=[], transitions=[step])

        assert claimed.verdicts == [first]
        assert bench.get("a") == before
        assert bench.take_ids(1, transitions=[step]) == ["a" if act == "release" else "b"]

    def test_another_end_of_the_same_lease_is_refused(self, bench: QueueDriver) -> None:
        """After an applied fail, a bury with its token is refused, also under the next lease."""
        job = bench.taken("a")
        bench.apply_one(SETTLING["fail"](job))

        assert bench.apply_one(SETTLING["bury"](job)) == Verdict(False, State.FAILING)
        bench.clock.advance(BACKOFF)
        bench.take_one()
        assert bench.apply_one(SETTLING["bury"](job)) == Verdict(False, State.PROCESSING)
        assert bench.apply_one(SETTLING["fail"](job)) == Verdict(True, State.PROCESSING)

    @pytest.mark.parametrize("act", ["fail", "snooze", "release"])
    def test_a_repeat_after_the_next_claim_touches_nothing(
        self, bench: QueueDriver, act: str
    ) -> None:
        """The answer was lost, the job went on, and the settle is sent again."""
        job = bench.taken("a")
        step = SETTLING[act](job)
        bench.apply_one(step)
        bench.clock.advance(60.0)
        bench.take_one(worker="w2")
        before = bench.get("a"), bench.journal()

        assert bench.apply_one(step) == Verdict(True, State.PROCESSING)
        assert (bench.get("a"), bench.journal()) == before

    def test_a_repeat_after_many_later_attempts_is_known(self, bench: QueueDriver) -> None:
        job = bench.taken("a", max_attempts=99)
        step = SETTLING["fail"](job)
        bench.apply_one(step)
        for _ in range(20):
            bench.clock.advance(BACKOFF)
            bench.fail(bench.take_one())

        assert bench.apply_one(step) == Verdict(True, State.FAILING)

    def test_another_result_is_refused(self, bench: QueueDriver) -> None:
        """The first answer stands: one result."""
        job = bench.taken("a")
        bench.complete(job, b"1")

        assert bench.complete(job, b"2") == Verdict(False, State.COMPLETED)
        assert bench.complete(job, None) == Verdict(False, State.COMPLETED)
        assert bench.get("a").result == b"1"

    def test_a_repeat_does_not_write_its_keys_again(self, bench: QueueDriver) -> None:
        """Rule 3: a key that was deleted meanwhile must not come back."""
        job = bench.taken("a", max_attempts=1, keys_if_undelivered=(("lost", "a"),))
        step = SETTLING["fail"](job)
        bench.apply_one(step)
        bench.write("lost", "a", value=None)

        assert bench.apply_one(step).applied
        assert bench.keys() == {}

    def test_a_repeat_after_redrive_is_known(self, bench: QueueDriver) -> None:
        job = bench.taken("a", max_attempts=1)
        step = SETTLING["fail"](job)
        bench.apply_one(step)
        bench.apply_one(redrive("a"))

        assert bench.apply_one(step) == Verdict(True, State.QUEUED)
        assert bench.state("a") is State.QUEUED

    def test_a_repeat_after_an_edit_is_known(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        step = complete(job, b"1", policy_of(job))
        bench.apply_one(step)
        bench.apply_one(edit("a", Edit(keep=999.0)))

        assert bench.apply_one(step) == Verdict(True, State.COMPLETED)

    def test_a_repeat_reaches_a_job_only_where_it_is(self, bench: QueueDriver) -> None:
        job = bench.taken("a")
        bench.apply_one(release(job, policy_of(job)))
        bench.apply_one(move("a", bench.other_queue("other").queue))

        assert bench.apply_one(release(job, policy_of(job))) == Verdict(False, None)
