"""The checker accepts a correct history, and finds the violation in each of the others."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from ackline.core.events import Act, Event
from ackline.core.job import Options, QueueKey, Record, State
from tests.harness.faults import Evidence, Report, Rule, check
from tests.harness.faults.checks.evidence import ALL_WORKERS
from tests.harness.faults.checks.history import Phase, Step, StepType

KEY = QueueKey("default", "work")
QUEUED, PROCESSING, COMPLETED = State.QUEUED, State.PROCESSING, State.COMPLETED


def step(what: StepType, phase: Phase, at: float = 0.0, **rest) -> Step:
    return Step(type=what, phase=phase, at=at, process="p", **rest)


def entry(
    place: int, act: Act, source: State | None, to: State | None, token: int = 0, id: str = "a"
) -> Event:
    return Event(
        f"{place}.1", float(place), KEY, act, id, "sync", source, to, 1, token, "w1", "", ""
    )


def record(state: State = COMPLETED, attempts: int = 2, id: str = "a", **options) -> Record:
    return Record(id, "sync", state, b"", 5, Options(**options), attempts, created_at=0.0)


DRAINED = step(StepType.PROCESS, Phase.OK, act="drain")

CORRECT = Evidence(
    steps=[
        step(StepType.ENQUEUE, Phase.INVOKE, id="a"),
        step(StepType.ENQUEUE, Phase.OK, id="a"),
        step(StepType.DELIVERY, Phase.INVOKE, id="a", token=10),
        step(StepType.FAULT, Phase.INVOKE, 2.5, id="f", act="kill worker", worker="w1"),
        step(StepType.FAULT, Phase.OK, 2.6, id="f", act="kill worker", worker="w1"),
        step(StepType.SETTLE, Phase.INVOKE, id="a", act="expire", token=10),
        step(StepType.SETTLE, Phase.OK, id="a", act="expire", token=10),
        step(StepType.DELIVERY, Phase.INVOKE, id="a", token=20),
        step(StepType.DELIVERY, Phase.OK, id="a", token=20),
        step(StepType.SETTLE, Phase.INVOKE, id="a", act="complete", token=20),
        step(StepType.SETTLE, Phase.OK, id="a", act="complete", token=20),
        step(StepType.SETTLE, Phase.INVOKE, id="a", act="complete", token=10),
        step(StepType.SETTLE, Phase.FAIL, id="a", act="complete", token=10),
        DRAINED,
    ],
    events=[
        entry(1, Act.ENQUEUE, None, QUEUED),
        entry(2, Act.CLAIM, QUEUED, PROCESSING, 10),
        entry(3, Act.EXPIRE, PROCESSING, QUEUED, 10),
        entry(4, Act.CLAIM, QUEUED, PROCESSING, 20),
        entry(5, Act.COMPLETE, PROCESSING, COMPLETED, 20),
    ],
    records={"a": record()},
)


def changed(**parts) -> Report:
    return check(msgspec.structs.replace(CORRECT, **parts), seed=7)


def with_steps(*more: Step) -> Report:
    return changed(steps=[*CORRECT.steps, *more])


def without_steps(which: Callable[[Step], bool]) -> Report:
    return changed(steps=[each for each in CORRECT.steps if not which(each)])


def with_events(events: Sequence[Event], **parts) -> Report:
    return changed(events=events, **parts)


def test_a_correct_history_passes():
    report = check(CORRECT)

    assert report.ok, str(report)
    assert report.figures["leases expired (extra deliveries)"] == 1
    assert report.figures["settlings refused"] == 1


def test_an_unknown_outcome_is_not_a_violation():
    report = with_steps(
        step(StepType.ENQUEUE, Phase.INVOKE, id="b"), step(StepType.ENQUEUE, Phase.INFO, id="c")
    )

    assert report.ok, str(report)
    assert report.figures["enqueues with unknown outcome"] == 2


def test_a_fault_of_the_server_affects_all_workers():
    steps = [
        msgspec.structs.replace(each, worker=ALL_WORKERS) if each.type is StepType.FAULT else each
        for each in CORRECT.steps
    ]

    report = changed(steps=steps)

    assert report.ok, str(report)
    assert report.figures["leases in flight at faults (their bound)"] == 1


def test_the_report_names_seed_rule_and_job():
    text = str(changed(records={}, events=[]))

    assert "NOT OK" in text
    assert "seed 7" in text
    assert "LOST" in text
    assert "a: enqueue answered ok, but not in the store" in text


def accepted_twice() -> Report:
    return with_steps(
        step(StepType.SETTLE, Phase.INVOKE, id="a", act="complete", token=10),
        step(StepType.SETTLE, Phase.OK, id="a", act="complete", token=10),
    )


def completed_twice() -> Report:
    again = entry(6, Act.COMPLETE, COMPLETED, COMPLETED, 20)
    return with_events([*CORRECT.events, again])


def settled_by_a_stale_token() -> Report:
    stale = entry(5, Act.COMPLETE, PROCESSING, COMPLETED, 10)
    return with_events([*CORRECT.events[:4], stale])


def one_attempt_too_many() -> Report:
    return changed(records={"a": record(max_attempts=1)})


def dead_lettered_early() -> Report:
    fail = entry(5, Act.FAIL, PROCESSING, State.FAILED, 20)
    return with_events([*CORRECT.events[:4], fail], records={"a": record(State.FAILED)})


def expired_without_a_fault() -> Report:
    return without_steps(lambda each: each.type is StepType.FAULT)


def completed_without_a_run() -> Report:
    return without_steps(lambda each: each.type is StepType.DELIVERY and each.phase is Phase.OK)


def a_reader_that_skips() -> Report:
    return with_steps(step(StepType.READ, Phase.OK, attempt=2, note="3.1"))


INCORRECT: list[tuple[Rule, Callable[[], Report]]] = [
    (Rule.LOST, lambda: changed(records={}, events=[])),
    (Rule.LOST, completed_without_a_run),
    (Rule.STUCK, lambda: changed(records={"a": record(PROCESSING)})),
    (Rule.UNEXPECTED, lambda: with_steps(step(StepType.DELIVERY, Phase.INVOKE, id="x", token=1))),
    (Rule.UNEXPECTED, lambda: without_steps(lambda each: each.type is StepType.ENQUEUE)),
    (Rule.COMPLETIONS, accepted_twice),
    (Rule.COMPLETIONS, completed_twice),
    (Rule.STALE, accepted_twice),
    (Rule.STALE, settled_by_a_stale_token),
    (Rule.REUSED, lambda: with_steps(step(StepType.DELIVERY, Phase.INVOKE, id="a", token=10))),
    (Rule.DISAGREEMENT, lambda: without_steps(lambda each: each.type is StepType.SETTLE)),
    (Rule.DISAGREEMENT, lambda: changed(records={"a": record(attempts=1)})),
    (
        Rule.DISAGREEMENT,
        lambda: with_steps(step(StepType.SETTLE, Phase.FAIL, id="a", act="complete", token=20)),
    ),
    (
        Rule.DISAGREEMENT,
        lambda: with_steps(step(StepType.SETTLE, Phase.OK, id="a", act="expire", token=10)),
    ),
    (Rule.ATTEMPTS, one_attempt_too_many),
    (Rule.ATTEMPTS, dead_lettered_early),
    (Rule.ILLEGAL, completed_twice),
    (Rule.ILLEGAL, lambda: with_events([*CORRECT.events[:2], *CORRECT.events[3:]])),
    (Rule.EXTRA, expired_without_a_fault),
    (Rule.SKIPPED, a_reader_that_skips),
    (Rule.SKIPPED, lambda: with_events([*CORRECT.events, CORRECT.events[-1]])),
    (Rule.ORPHANED, lambda: with_steps(step(StepType.PROCESS, Phase.FAIL, act="orphaned"))),
    (Rule.BLOCKED, lambda: with_steps(step(StepType.PROCESS, Phase.FAIL, act="blocked"))),
    (Rule.UNDRAINED, lambda: without_steps(lambda each: each is DRAINED)),
]


@pytest.mark.parametrize(("rule", "incorrect"), INCORRECT)
def test_an_incorrect_history_breaks_its_rule(rule: Rule, incorrect: Callable[[], Report]):
    report = incorrect()

    assert rule in report.broken, str(report)


def test_every_rule_has_a_history_that_breaks_it():
    assert {rule for rule, _ in INCORRECT} == set(Rule)
