"""Checks that a journal records only legal histories of jobs; needs no store."""

from __future__ import annotations

from collections.abc import Iterable

from ackline.core.events import Act, Event
from ackline.core.job import TERMINAL, QueueKey, State
from ackline.core.lifecycle import LEGAL_TRANSITIONS

_ATTEMPT_RETURNED = frozenset({Act.RELEASE, Act.SNOOZE})
_ATTEMPTS_RESET = frozenset({Act.ENQUEUE, Act.REDRIVE})


class IllegalHistory(AssertionError):
    """The journal has an entry that cannot follow the entries before it."""


def is_legal(event: Event) -> bool:
    """Whether the lifecycle allows this step. A move is two: out of one queue, into another."""
    if event.act is Act.MOVE:
        return (event.source is None) != (event.to is None)
    return event.to in LEGAL_TRANSITIONS[event.act].get(event.source, ())


class JournalChecker:
    """Checks a journal entry by entry."""

    def __init__(self) -> None:
        self._states: dict[tuple[QueueKey, str], State | None] = {}
        self._deliveries: dict[tuple[QueueKey, str], int] = {}

    def follow(self, events: Iterable[Event]) -> None:
        """Check the next entries; the first illegal one raises `IllegalHistory`."""
        for event in events:
            if event.id:
                self._require_join(event)
                self._require_legal(event)
                self._count(event)

    def deliveries(self, queue: QueueKey, id: str) -> int:
        """How many deliveries count since a job was last enqueued or redriven."""
        return self._deliveries.get((queue, id), 0)

    def _require_join(self, event: Event) -> None:
        before = self._states.get((event.queue, event.id))
        # Past its retention a job is gone before anyone has pruned it.
        is_pruned = event.source is None and before in TERMINAL
        if event.source is not before and not is_pruned:
            raise IllegalHistory(f"the job was {before or 'absent'} before {event}")
        self._states[event.queue, event.id] = event.to

    def _require_legal(self, event: Event) -> None:
        if not is_legal(event):
            raise IllegalHistory(f"no {event.act} leads there: {event}")

    def _count(self, event: Event) -> None:
        key = event.queue, event.id
        if event.act in _ATTEMPTS_RESET:
            self._deliveries[key] = 0
        elif event.act is Act.MOVE and event.source is None:
            self._deliveries[key] = event.attempt
        elif event.act is Act.CLAIM:
            self._deliveries[key] += 1
        elif event.act in _ATTEMPT_RETURNED:
            self._deliveries[key] -= 1


def check_journal(events: Iterable[Event]) -> None:
    """Check that each entry continues the one before it with a step that the lifecycle allows."""
    JournalChecker().follow(events)
