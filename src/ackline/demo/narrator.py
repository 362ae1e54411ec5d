"""Lines about what just happened, for the few events that deserve one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from ackline.demo.books import Crash
from ackline.events import Act, Event
from ackline.job import State

PAUSE = 3.0
"""Seconds between two lines about the same everyday events; those in between are added up."""

EVERYDAY_TROUBLE = "deliver"
"""The kind whose dead letters are only counted."""

FEW = 3
"""Fewer than this are not worth a second line."""


class Narrator:
    """Tells the story from the journal."""

    def __init__(self, tell: Callable[[str], None], pid_of: Callable[[str], int | None]) -> None:
        self._tell = tell
        self._pid_of = pid_of
        self._everyday: Counter[str] = Counter()
        self._last_line_at: dict[str, float] = {}
        self._seen: dict[str, int] = {}
        self._reported: set[str] = set()

    def read(self, events: Sequence[Event]) -> None:
        """Tell what these events amount to; many of one sort become one line."""
        for event in events:
            line = _line(event)
            if line:
                self._tell(line)
            elif sort := _everyday(event):
                self._everyday[sort] += 1
        self._tell_everyday()

    def _tell_everyday(self) -> None:
        now = time.monotonic()
        for sort, number in list(self._everyday.items()):
            again = sort in self._last_line_at
            if not again or (now - self._last_line_at[sort] >= PAUSE and number >= FEW):
                del self._everyday[sort]
                self._last_line_at[sort] = now
                self._tell(f"{number} {'job' if number == 1 else 'jobs'} {sort}")

    def read_crashes(self, crashes: Sequence[Crash]) -> None:
        """Tell of dead workers once all their jobs are free: they are freed queue by queue."""
        for crash in crashes:
            before = self._seen.get(crash.worker)
            self._seen[crash.worker] = len(crash.jobs)
            if crash.worker in self._reported or before != len(crash.jobs):
                continue
            self._reported.add(crash.worker)
            pid = self._pid_of(crash.worker)
            jobs = "its job was" if len(crash.jobs) == 1 else f"its {len(crash.jobs)} jobs were"
            self._tell(
                f"worker {pid or crash.worker} died ({crash.by}); "
                f"{jobs} freed after {crash.freed_after:.3f} s"
            )


def _line(event: Event) -> str:
    """The line of an event that deserves its own; else empty."""
    match event.act, event.to:
        case Act.FAIL, State.FAILED if event.kind != EVERYDAY_TROUBLE:
            return f"{event.id} goes to the DLQ, {event.note}"
        case Act.FAIL, _ if event.note.startswith("HandlerTimeout"):
            return f"{event.id} hung and was stopped, {event.note}"
        case Act.CANCEL, _ if event.note:
            return f"{event.id} cancelled, {event.note}"
        case Act.EXPIRE, State.FAILED:
            return f"{event.id} has killed its last worker: it goes to the DLQ"
        case _:
            return ""


def _everyday(event: Event) -> str:
    """The sort of an event that is only counted; else empty."""
    match event.act:
        case Act.FAIL:
            then = "dead letters" if event.to is State.FAILED else "to be tried again"
            return f"failed, {then}: {event.note.partition(':')[0]}"
        case Act.SNOOZE:
            return "snoozed, no attempt lost"
        case Act.COMPLETE if event.attempt > 1:
            return "completed at the second attempt or later"
        case _:
            return ""
