"""Allowed loss is measured; any other loss breaks a rule."""

import pytest

from ackline.core.events import Act, Event
from ackline.core.job import Options, QueueKey, Record, State
from tests.harness.faults import Evidence, Rule, check
from tests.harness.faults.checks.allowed_loss import (
    check_with_allowed_loss,
    excuse_allowed_loss,
    may_lose,
)
from tests.harness.faults.checks.evidence import ALL_WORKERS
from tests.harness.faults.checks.history import Phase, Step, StepType

KEY = QueueKey("default", "work")


def step(what: StepType, phase: Phase, at: float, **rest) -> Step:
    return Step(type=what, phase=phase, at=at, process="p", **rest)


def kill(at: float, note: str = may_lose(2.0)) -> list[Step]:
    fault = {"id": f"fault-{at}", "act": "kill server", "worker": ALL_WORKERS}
    return [
        step(StepType.FAULT, Phase.INVOKE, at, note=note, **fault),
        step(StepType.FAULT, Phase.OK, at + 0.1, **fault),
    ]


def enqueued(id: str, at: float) -> list[Step]:
    return [
        step(StepType.ENQUEUE, Phase.INVOKE, at - 0.01, id=id),
        step(StepType.ENQUEUE, Phase.OK, at, id=id),
    ]


def evidence(*steps: Step, events=(), records=None) -> Evidence:
    drained = step(StepType.PROCESS, Phase.OK, 100.0, act="drain")
    return Evidence(steps=[*steps, drained], events=list(events), records=records or {})


@pytest.mark.parametrize(("at", "ok"), [(8.5, True), (10.3, True), (7.9, False), (11.0, False)])
def test_only_answers_from_just_before_the_fault_may_be_lost(at, ok):
    report = check_with_allowed_loss(evidence(*enqueued("a", at), *kill(10.0)))

    assert report.ok is ok, str(report)
    assert report.broken == (frozenset() if ok else {Rule.LOST})


def test_the_loss_is_measured():
    found = evidence(*enqueued("a", 8.5), *enqueued("b", 9.5), *kill(10.0))

    figures = check_with_allowed_loss(found).figures

    assert figures["answered jobs lost, as allowed"] == 2
    assert figures["age of the oldest lost answer in ms"] == 1500


def test_a_fault_without_a_note_excuses_nothing():
    found = evidence(*enqueued("a", 9.99), *kill(10.0, note=""))

    assert check_with_allowed_loss(found).broken == check(found).broken == {Rule.LOST}


def test_of_two_faults_the_next_one_explains_the_loss():
    found = evidence(*kill(9.0), *enqueued("a", 9.2), *kill(10.0))

    assert excuse_allowed_loss(found)[1].enqueues == pytest.approx((0.8,))


def test_a_stored_job_was_not_lost():
    event = Event("1.1", 9.4, KEY, Act.ENQUEUE, "a", "sync", None, State.QUEUED, 0, 0, "", "", "")
    record = Record("a", "sync", State.QUEUED, b"", 5, Options(), 0, created_at=0.0)
    found = evidence(*enqueued("a", 9.5), *kill(10.0), events=[event], records={"a": record})

    excused, loss = excuse_allowed_loss(found)

    assert loss.enqueues == ()
    assert excused == found


def expire(cursor: int, at: float) -> Event:
    source, to = State.PROCESSING, State.QUEUED
    return Event(f"{cursor}.1", at, KEY, Act.EXPIRE, "a", "sync", source, to, 1, 7, "w", "", "")


def test_a_settling_that_was_lost_and_done_again_counts_once():
    request = {"id": "a", "act": "expire", "token": 7}
    found = evidence(
        step(StepType.SETTLE, Phase.OK, 9.9, **request),
        *kill(10.0),
        step(StepType.SETTLE, Phase.OK, 12.0, **request),
        events=[expire(1, 11.9)],
    )

    excused, loss = excuse_allowed_loss(found)

    assert loss.settlings == pytest.approx((0.1,))
    assert [each.phase for each in excused.steps if each.type is StepType.SETTLE] == ["info", "ok"]


def twice_expired(first: float, second: float) -> Evidence:
    request = {"id": "a", "act": "expire", "token": 7}
    return evidence(
        step(StepType.SETTLE, Phase.OK, first, **request),
        *kill(10.0),
        step(StepType.SETTLE, Phase.OK, second, **request),
        events=[expire(1, 10.15)],
    )


def test_a_lost_answer_may_be_recorded_after_it_was_repeated():
    """A busy process records it late, and the restored lease is expired at once."""
    excused, loss = excuse_allowed_loss(twice_expired(10.2, 10.5))

    assert len(loss.settlings) == 1
    assert [each.phase for each in excused.steps if each.type is StepType.SETTLE] == ["info", "ok"]


def test_a_repeated_answer_without_a_fault_is_not_excused():
    found = twice_expired(11.0, 11.5)

    assert excuse_allowed_loss(found)[0] == found
