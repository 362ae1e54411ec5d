"""The evidence of a campaign, and its index for the checker."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from ackline.core.config import DEFAULTS
from ackline.core.events import Act, Event
from ackline.core.job import Record
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.checks.job_timelines import Lease, replay

PAUSE = "pause"
"""The first word in the act of a fault that suspends a process."""

ALL_WORKERS = "all workers"
"""The victim of a fault of the server, which affects all workers with leases."""

STALL_SECONDS = 0.2
"""Seconds without a journal entry after which no process may have been able to write."""

SETTLING = (Act.COMPLETE, Act.FAIL, Act.SNOOZE, Act.RELEASE, Act.EXPIRE)

SettlingKey = tuple[str, int, str]
"""The job's id, the token, and the act."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known after a campaign."""

    steps: Sequence[Step]
    events: Sequence[Event]
    records: Mapping[str, Record]
    max_attempts: int = DEFAULTS.max_attempts
    """For jobs that do not set `max_attempts`."""


class Fault(msgspec.Struct):
    """The process that a fault hit, and from when until when."""

    victim: str
    pause: bool
    since: float
    until: float
    stalled: bool = False
    """Whether a suspended process seems to have blocked all writes."""

    def may_lose(self, lease: Lease) -> bool:
        """Whether a lease may be lost: a worker that is killed or suspended loses its leases.

        If it was suspended with the store's write lock, no worker could extend its leases, so all
        leases in flight may be lost.
        """
        injected = self.stalled or self.victim in (ALL_WORKERS, lease.worker)
        return injected and lease.in_flight(self.since, self.until)

    def note_stall(self, times: Sequence[float]) -> None:
        """Record whether the journal stalled; `times` are those of its entries, sorted."""
        first, last = bisect_left(times, self.since), bisect_right(times, self.until)
        points = [self.since, *times[first:last], self.until]
        longest_gap = max(after - before for before, after in itertools.pairwise(points))
        self.stalled = self.pause and longest_gap > STALL_SECONDS


class SortedEvidence:
    """Requests, answers and deliveries, and what the journal has of them, by job."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.records = evidence.records
        self.timelines = replay(evidence.events)
        self.enqueues: dict[str, set[Phase]] = defaultdict(set)
        self.answers: dict[SettlingKey, list[Phase]] = defaultdict(list)
        self.started: list[Step] = []
        self.done: set[tuple[str, int]] = set()
        self.faults: dict[str, Fault] = {}
        for step in evidence.steps:
            self._sort(step)
        times = sorted(event.at for event in evidence.events)
        for fault in self.faults.values():
            fault.note_stall(times)
        self.leases = [lease for timeline in self.timelines.values() for lease in timeline.leases]
        self.expired = sum(lease.ended_by is Act.EXPIRE for lease in self.leases)
        self.in_flight = sum(
            any(fault.may_lose(lease) for fault in self.faults.values()) for lease in self.leases
        )

    def _sort(self, step: Step) -> None:
        match step.type, step.phase:
            case StepType.ENQUEUE, phase:
                self.enqueues[step.id].add(phase)
            case StepType.SETTLE, phase:
                if step.act in SETTLING:
                    self.answers[step.id, step.token, step.act].append(phase)
            case StepType.DELIVERY, Phase.INVOKE:
                self.started.append(step)
            case StepType.DELIVERY, Phase.OK:
                self.done.add((step.id, step.token))
            case StepType.FAULT, _:
                fault = Fault(step.worker, step.act.startswith(PAUSE), step.at, step.at)
                self.faults.setdefault(step.id, fault).until = step.at
            case _:
                pass

    def journalled(self) -> set[SettlingKey]:
        """Every settling in the journal."""
        return {
            (timeline.id, token, str(act))
            for timeline in self.timelines.values()
            for token, act in timeline.settled
            if act in SETTLING
        }

    def figures(self) -> dict[str, int]:
        """Counts for the report."""
        enqueued = sum(Phase.OK in phases for phases in self.enqueues.values())
        states = Counter(record.state for record in self.records.values())
        settled = Counter(_outcome(phases) for phases in self.answers.values())
        return {
            "enqueues answered ok": enqueued,
            "enqueues with unknown outcome": len(self.enqueues) - enqueued,
            **{f"jobs {state} at the end": count for state, count in sorted(states.items())},
            "deliveries": len(self.started),
            "jobs delivered": len({step.id for step in self.started}),
            "leases": len(self.leases),
            "leases expired (extra deliveries)": self.expired,
            "leases in flight at faults (their bound)": self.in_flight,
            "settlings applied": settled[Phase.OK],
            "settlings refused": settled[Phase.FAIL],
            "settlings with unknown outcome": settled[Phase.INFO],
            "journal entries": len(self.evidence.events),
        }


def _outcome(phases: Sequence[Phase]) -> Phase:
    if Phase.OK in phases:
        return Phase.OK
    return Phase.FAIL if Phase.FAIL in phases else Phase.INFO
