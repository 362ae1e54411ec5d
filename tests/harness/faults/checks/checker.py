"""Checks histories, journal and final state against the rules.

A request without an answer has an unknown outcome: the job may be stored or not, the settling
applied or not. What was answered must hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from ackline.core.events import Act, read_cursor
from ackline.core.job import State
from tests.harness.faults.checks.evidence import Evidence, SettlingKey, SortedEvidence
from tests.harness.faults.checks.history import Phase, StepType
from tests.harness.faults.checks.report import Report, Rule, Violation

DRAIN, ORPHANED, BLOCKED = "drain", "orphaned", "blocked"
"""Acts of steps that the harness itself records."""

_REPORTED = {ORPHANED: Rule.ORPHANED, BLOCKED: Rule.BLOCKED}


def check(evidence: Evidence, *, seed: int | None = None, title: str = "") -> Report:
    """Check the evidence against all rules."""
    case = SortedEvidence(evidence)
    injected = Counter(
        step.act
        for step in evidence.steps
        if step.type is StepType.FAULT and step.phase is Phase.INVOKE
    )
    return Report(
        violations=tuple(violation for rule in RULES for violation in rule(case)),
        figures=case.figures(),
        faults=injected,
        seed=seed,
        title=title,
    )


def undrained(case: SortedEvidence) -> Iterator[Violation]:
    """A final drain is needed to detect lost jobs."""
    drained = any(
        step.type is StepType.PROCESS and step.act == DRAIN and step.phase is Phase.OK
        for step in case.evidence.steps
    )
    if not drained:
        yield Violation(Rule.UNDRAINED, "no worker finished all jobs after the faults")


def lost(case: SortedEvidence) -> Iterator[Violation]:
    """Every job whose enqueue was answered with ok is in the store, and finished."""
    for id, phases in case.enqueues.items():
        record = case.records.get(id)
        if record is None:
            if Phase.OK in phases:
                yield Violation(Rule.LOST, id, "enqueue answered ok, but not in the store")
        elif not record.state.terminal:
            yield Violation(Rule.STUCK, id, f"is {record.state}, attempt {record.attempts}")


def completed_without_work(case: SortedEvidence) -> Iterator[Violation]:
    """Every completed job has run, under the token that completed it."""
    for id, timeline in case.timelines.items():
        for token in timeline.completed_by:
            if (id, token) not in case.done:
                detail = f"completed under token {token}, but no handler finished it"
                yield Violation(Rule.LOST, id, detail)


def unexpected(case: SortedEvidence) -> Iterator[Violation]:
    """Only jobs that some process tried to enqueue run or are stored."""
    delivered = {step.id for step in case.started}
    for id in sorted((delivered | case.records.keys()) - case.enqueues.keys()):
        yield Violation(Rule.UNEXPECTED, id)


def completions(case: SortedEvidence) -> Iterator[Violation]:
    """A completed job has one completion in the answers and in the journal; others have none."""
    answered: dict[str, set[int]] = defaultdict(set)
    for (id, token, act), phases in case.answers.items():
        if act == Act.COMPLETE and Phase.OK in phases:
            answered[id].add(token)
    for id in sorted(case.timelines.keys() | answered.keys() | case.records.keys()):
        yield from _completions_of(case, id, answered[id])


def _completions_of(case: SortedEvidence, id: str, answered: set[int]) -> Iterator[Violation]:
    timeline, record = case.timelines.get(id), case.records.get(id)
    journal = timeline.completed_by if timeline else []
    expected = 1 if record and record.state is State.COMPLETED else 0
    if len(journal) != expected:
        state = record.state if record else "gone"
        yield Violation(Rule.COMPLETIONS, id, f"is {state}, the journal has {len(journal)}")
    if len(answered) > expected:
        tokens = ", ".join(map(str, sorted(answered)))
        yield Violation(Rule.COMPLETIONS, id, f"accepted under {len(answered)}: {tokens}")


def settlings(case: SortedEvidence) -> Iterator[Violation]:
    """Every answer `applied` is in the journal under its token, and vice versa."""
    journal = case.journalled()
    for key, phases in case.answers.items():
        yield from _settling(key, phases, key in journal)
    for id, token, act in sorted(journal - case.answers.keys()):
        yield Violation(Rule.DISAGREEMENT, id, f"{act} under {token} was never requested")


def _settling(key: SettlingKey, phases: Sequence[Phase], in_journal: bool) -> Iterator[Violation]:
    id, token, act = key
    applied = phases.count(Phase.OK)
    if applied and not in_journal:
        detail = f"{act} under token {token} was accepted, but the journal has no such step"
        yield Violation(Rule.STALE, id, detail)
    if act == Act.EXPIRE:
        # Two reapers may both request it; one of them is refused.
        if applied > 1:
            yield Violation(Rule.DISAGREEMENT, id, f"expired {applied} times under {token}")
    elif Phase.FAIL in phases and in_journal:
        detail = f"{act} under token {token} was refused, yet the journal has it"
        yield Violation(Rule.DISAGREEMENT, id, detail)


def reused_tokens(case: SortedEvidence) -> Iterator[Violation]:
    """No token is issued twice for one job, not even by a store that lost the first lease."""
    starts = Counter((step.id, step.token) for step in case.started)
    for (id, token), count in starts.items():
        if count > 1:
            yield Violation(Rule.REUSED, id, f"started {count} times under token {token}")


def attempts(case: SortedEvidence) -> Iterator[Violation]:
    """No more than `max_attempts`, and no fewer before the job moves to the DLQ."""
    for id, timeline in case.timelines.items():
        record = case.records.get(id)
        if record is None:
            continue
        max_attempts = record.options.max_attempts or case.evidence.max_attempts
        if timeline.attempts > max_attempts:
            yield Violation(Rule.ATTEMPTS, id, f"{timeline.attempts} of {max_attempts}")
        elif record.state is State.FAILED and timeline.attempts != max_attempts:
            yield Violation(
                Rule.ATTEMPTS, id, f"failed after {timeline.attempts} of {max_attempts}"
            )
        if record.attempts != timeline.attempts:
            detail = f"has {record.attempts} attempts, {timeline.attempts} in the journal"
            yield Violation(Rule.DISAGREEMENT, id, detail)


def transitions(case: SortedEvidence) -> Iterator[Violation]:
    """Each step of the journal is legal, and the last one leads to the job's state."""
    for id, timeline in case.timelines.items():
        yield from timeline.violations
        record = case.records.get(id)
        if (record.state if record else None) is not timeline.state:
            state = record.state if record else "gone"
            detail = f"is {state}, but {timeline.state} in the journal"
            yield Violation(Rule.DISAGREEMENT, id, detail)


def extra_deliveries(case: SortedEvidence) -> Iterator[Violation]:
    """Only jobs whose leases were in flight at a fault are redelivered."""
    if case.expired > case.in_flight:
        detail = f"{case.expired} leases expired, {case.in_flight} were in flight"
        yield Violation(Rule.EXTRA, "redeliveries", detail)


def skipped_events(case: SortedEvidence) -> Iterator[Violation]:
    """A reader that followed the journal has read every entry once, in order."""
    events = case.evidence.events
    cursors = [read_cursor(event.cursor) for event in events]
    if cursors != sorted(set(cursors)):
        yield Violation(Rule.SKIPPED, "journal", "its cursors are not in ascending order")
    index = {event.cursor: number for number, event in enumerate(events, 1)}
    read_counts: Counter[str] = Counter()
    for step in case.evidence.steps:
        if step.type is StepType.READ and step.phase is Phase.OK:
            read_counts[step.process] += step.attempt
            if read_counts[step.process] != index.get(step.note):
                detail = f"{read_counts[step.process]} entries read up to {step.note}"
                yield Violation(Rule.SKIPPED, step.process, detail)
                return


def reported(case: SortedEvidence) -> Iterator[Violation]:
    """Violations that the harness has detected."""
    for step in case.evidence.steps:
        if step.type is StepType.PROCESS and step.phase is Phase.FAIL and step.act in _REPORTED:
            yield Violation(_REPORTED[step.act], step.worker, step.note)


RULES: tuple[Callable[[SortedEvidence], Iterator[Violation]], ...] = (
    undrained,
    lost,
    completed_without_work,
    unexpected,
    completions,
    settlings,
    reused_tokens,
    attempts,
    transitions,
    extra_deliveries,
    skipped_events,
    reported,
)
"""All rules that the evidence is checked against."""
