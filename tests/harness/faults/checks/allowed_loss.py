"""Checks that a store loses no more answered changes in a crash than it may.

A server that syncs its log each second, or replicates asynchronously, answers before a change is
durable. The note of such a fault, `may_lose(seconds)`, records how old the lost answers may be. If
the effect of such an answer is gone, the checker treats it as an unknown outcome, and the loss is
counted and reported. The loss of an older answer breaks a rule, and so does any loss by a fault
without a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from ackline.core.events import Act, Event
from ackline.core.lifecycle import REPEATABLE
from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.evidence import SETTLING, Evidence
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.checks.report import Report

MAX_LOG_DELAY = 0.25
"""Seconds that a busy process may take to record an answer that came before the fault."""

_NOTE = re.compile(r"may lose ([\d.]+) s")

Answer = tuple[str, int, str]


def may_lose(seconds: float) -> str:
    """The note of a fault that may lose the answers of the last seconds before it."""
    return f"may lose {seconds:.3f} s"


class LossWindow(msgspec.Struct, frozen=True):
    """The time of a fault that may lose answers, and how old they may be."""

    since: float
    until: float
    seconds: float

    def may_lose(self, at: float) -> bool:
        """Whether an answer at this time may be lost."""
        return self.since - self.seconds <= at <= self.until + MAX_LOG_DELAY


class Loss(msgspec.Struct, frozen=True):
    """The age of each lost answer at its fault, in seconds."""

    enqueues: tuple[float, ...] = ()
    settlings: tuple[float, ...] = ()

    def figures(self) -> dict[str, int]:
        """For the report."""
        oldest = max((0.0, *self.enqueues, *self.settlings))
        return {
            "answered jobs lost, as allowed": len(self.enqueues),
            "answered settlings lost, as allowed": len(self.settlings),
            "age of the oldest lost answer in ms": round(oldest * 1000),
        }


def check_with_allowed_loss(
    evidence: Evidence, *, seed: int | None = None, title: str = ""
) -> Report:
    """Check the evidence against all rules; allowed loss is reported and breaks no rule."""
    excused, loss = excuse_allowed_loss(evidence)
    report = check(excused, seed=seed, title=title)
    return msgspec.structs.replace(report, figures={**report.figures, **loss.figures()})


def excuse_allowed_loss(evidence: Evidence) -> tuple[Evidence, Loss]:
    """The evidence with allowed losses as unknown outcomes, and the losses."""
    windows = list(_loss_windows(evidence.steps))
    journal_times = _journal_times(evidence.events)
    last_times = _last_applied_times(evidence.steps)
    ages: dict[StepType, list[float]] = {StepType.ENQUEUE: [], StepType.SETTLE: []}

    def excused(step: Step) -> Step:
        losing = (
            [window for window in windows if window.may_lose(step.at)] if _is_answer(step) else []
        )
        if not losing or _is_kept(step, journal_times, last_times):
            return step
        # Attributed to the next fault, or to the one just before if there is no next one.
        until_next = [window.since - step.at for window in losing if window.since > step.at]
        ages[step.type].append(min(until_next, default=0.0))
        return msgspec.structs.replace(step, phase=Phase.INFO, note="lost, as allowed")

    steps = [excused(step) for step in evidence.steps]
    loss = Loss(tuple(ages[StepType.ENQUEUE]), tuple(ages[StepType.SETTLE]))
    return msgspec.structs.replace(evidence, steps=steps), loss


def _loss_windows(steps: Sequence[Step]) -> Iterator[LossWindow]:
    ends = {
        step.id: step.at
        for step in steps
        if step.type is StepType.FAULT and step.phase is not Phase.INVOKE
    }
    for step in steps:
        note = _NOTE.fullmatch(step.note)
        if step.type is StepType.FAULT and step.phase is Phase.INVOKE and note:
            yield LossWindow(step.at, ends.get(step.id, step.at), float(note[1]))


def _is_answer(step: Step) -> bool:
    settles = step.type is StepType.SETTLE and step.act in SETTLING
    return step.phase is Phase.OK and (settles or step.type is StepType.ENQUEUE)


def _is_kept(
    step: Step, journal_times: dict[Answer, float], last_times: dict[Answer, float]
) -> bool:
    # An entry later than the answer belongs to a repetition of the step. A busy process may record
    # the lost answer only after that, so an entry confirms only the last answer.
    answer = _answer(step)
    return journal_times.get(answer, float("inf")) <= step.at >= last_times.get(answer, 0.0)


def _last_applied_times(steps: Sequence[Step]) -> dict[Answer, float]:
    """When each settling that is applied only once was last answered."""
    return {
        _answer(step): step.at
        for step in sorted(steps, key=lambda step: step.at)
        if _is_answer(step) and step.type is StepType.SETTLE and step.act not in REPEATABLE
    }


def _answer(step: Step) -> Answer:
    if step.type is StepType.ENQUEUE:
        return step.id, 0, Act.ENQUEUE
    return step.id, step.token, step.act


def _journal_times(events: Sequence[Event]) -> dict[Answer, float]:
    times: dict[Answer, float] = {}
    for event in events:
        token = event.token if event.act in SETTLING else 0
        times.setdefault((event.id, token, event.act), event.at)
    return times
