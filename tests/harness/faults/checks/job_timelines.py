"""Replays the journal: the timeline of each job, and its illegal transitions."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ackline.core.events import Act, Event
from ackline.core.job import State
from ackline.core.lifecycle import FENCED_ACTS
from ackline.testing.journal_checker import is_legal
from tests.harness.faults.checks.report import Rule, Violation


class Lease:
    """One delivery in the journal."""

    def __init__(self, event: Event) -> None:
        self.token = event.token
        self.worker = event.worker
        self.claimed_at = event.at
        self.ended_at = math.inf
        self.ended_by: Act | None = None

    def in_flight(self, since: float, until: float) -> bool:
        """Whether it was leased at any time in this span."""
        return self.claimed_at <= until and self.ended_at >= since


class JobTimeline:
    """The transitions of one job."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.state: State | None = None
        self.leases: list[Lease] = []
        self.attempts = 0
        self.completed_by: list[int] = []
        self.settled: set[tuple[int, Act]] = set()
        self.violations: list[Violation] = []

    def step(self, event: Event) -> None:
        """Apply one entry of the journal."""
        self._check_legal(event)
        if event.act is Act.CLAIM:
            self._claim(event)
        elif event.act in FENCED_ACTS:
            self._check_token(event)
        if event.source is State.PROCESSING and event.to is not State.PROCESSING:
            self._end(event)
        if event.act is Act.COMPLETE:
            self.completed_by.append(event.token)
        if event.act in (Act.ENQUEUE, Act.REDRIVE):
            self.attempts = 0
        self.state = event.to

    def _check_legal(self, event: Event) -> None:
        path = f"{event.act} from {event.source} to {event.to} at {event.cursor}"
        if event.source is not self.state:
            self._violate(Rule.ILLEGAL, f"{path}, but it was {self.state}")
        if not is_legal(event):
            self._violate(Rule.ILLEGAL, path)

    def _claim(self, event: Event) -> None:
        if self.leases and event.token <= self.leases[-1].token:
            self._violate(Rule.STALE, f"token {event.token} is not higher than the previous one")
        self.leases.append(Lease(event))
        self.attempts += 1

    def _check_token(self, event: Event) -> None:
        lease = self.leases[-1] if self.leases else None
        if lease is None or lease.ended_by is not None or lease.token != event.token:
            current = lease.token if lease else "none"
            path = f"{event.act} under token {event.token} at {event.cursor}"
            self._violate(Rule.STALE, f"{path}, the current one is {current}")

    def _end(self, event: Event) -> None:
        self.settled.add((event.token, event.act))
        if self.leases:
            self.leases[-1].ended_at, self.leases[-1].ended_by = event.at, event.act
        if event.act in (Act.RELEASE, Act.SNOOZE):
            self.attempts -= 1

    def _violate(self, rule: Rule, detail: str) -> None:
        self.violations.append(Violation(rule, self.id, detail))


def replay(events: Iterable[Event]) -> dict[str, JobTimeline]:
    """The timeline of every job in the journal."""
    timelines: dict[str, JobTimeline] = {}
    for event in events:
        if event.id:
            timelines.setdefault(event.id, JobTimeline(event.id)).step(event)
    return timelines
