"""The time from a fault of the server until jobs are claimed again."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import msgspec

from ackline.core.events import Act
from tests.harness.faults.checks.evidence import Evidence
from tests.harness.faults.checks.history import Phase, StepType
from tests.harness.faults.checks.report import Report


def recovery_times(evidence: Evidence, act: str) -> list[float]:
    """Seconds from the end of each fault to the next claim, unless the next fault came first."""
    claims = sorted(event.at for event in evidence.events if event.act is Act.CLAIM)
    found = []
    for _, end, next_fault in fault_times(evidence, act):
        first = next((at for at in claims if at > end), math.inf)
        if first < next_fault:
            found.append(first - end)
    return found


def fault_times(evidence: Evidence, act: str) -> Iterator[tuple[float, float, float]]:
    """For each fault, when it began, when it ended, and when the next one began."""
    faults = [step for step in evidence.steps if step.type is StepType.FAULT and step.act == act]
    begins = [step.at for step in faults if step.phase is Phase.INVOKE]
    ends = [step.at for step in faults if step.phase is Phase.OK]
    return zip(begins, ends, [*begins[1:], math.inf], strict=True)


def add_recovery(report: Report, evidence: Evidence, act: str) -> Report:
    """Add the recovery times to a report."""
    seconds = recovery_times(evidence, act)
    if not seconds:
        return report
    figures = {
        **report.figures,
        "recoveries measured": len(seconds),
        "ms until the next claim, median": round(statistics.median(seconds) * 1000),
        "ms until the next claim, at most": round(max(seconds) * 1000),
    }
    return msgspec.structs.replace(report, figures=figures)
