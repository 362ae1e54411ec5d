"""The books: every accepted job accounted for, from the journal and against the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.demo.ledger import JobName, Ledger
from ackline.demo.story import POISON
from ackline.events import Act, Event
from ackline.job import TERMINAL, State
from ackline.queues import Queues


class Crash(msgspec.Struct):
    """A worker that died with jobs in its hands."""

    worker: str
    died_at: float
    freed_at: float = 0.0
    jobs: list[JobName] = msgspec.field(default_factory=list)
    by: str = ""
    pending: set[JobName] = msgspec.field(default_factory=set)
    """Its jobs that no other worker has claimed yet."""
    running_again: float | None = None
    """When the last of its jobs so far was claimed by another worker."""

    @property
    def freed_after(self) -> float:
        """Seconds from the death until its jobs were free."""
        return max(self.freed_at - self.died_at, 0.0)

    @property
    def recovered_after(self) -> float | None:
        """Seconds from the death until another worker had claimed all that were queued again."""
        if self.running_again is None or self.pending:
            return None
        return self.running_again - self.died_at


class Books(msgspec.Struct):
    """The whole journal, added up."""

    enqueued: int = 0
    by_schedules: int = 0
    by_hand: int = 0
    """Enqueued by hand meanwhile, through the dashboard or the command."""
    deleted: int = 0
    pruned: int = 0
    replaced: int = 0
    """Enqueued anew in place of a job that had failed or was cancelled."""
    states: Counter[State] = msgspec.field(default_factory=Counter)
    acts: Counter[Act] = msgspec.field(default_factory=Counter)
    retries: int = 0
    timeouts: int = 0
    redelivered: int = 0
    lost: list[JobName] = msgspec.field(default_factory=list)
    unexpected: list[JobName] = msgspec.field(default_factory=list)
    completed_twice: list[JobName] = msgspec.field(default_factory=list)
    disagree: list[str] = msgspec.field(default_factory=list)
    """Queues whose counts in the store are not those of the journal."""
    crashes: list[Crash] = msgspec.field(default_factory=list)
    failed: list[JobName] = msgspec.field(default_factory=list)
    """The jobs in the DLQ."""

    @property
    def waiting(self) -> int:
        """Jobs that are not settled yet."""
        return sum(number for state, number in self.states.items() if state not in TERMINAL)

    @property
    def gone(self) -> int:
        """Jobs that no longer exist, for a reason that the journal names."""
        return self.deleted + self.pruned + self.replaced

    @property
    def balanced(self) -> bool:
        """Whether every accepted job is in exactly one place."""
        return (
            not (self.lost or self.unexpected or self.completed_twice or self.disagree)
            and sum(self.states.values()) + self.gone == self.enqueued
        )


class Bookkeeper:
    """Reads the journal, event by event."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._state: dict[JobName, State | None] = {}
        self._taken: set[JobName] = set()
        """Purged, but the journal does not say by whom."""
        self._completions: Counter[JobName] = Counter()
        self._last_words: dict[str, float] = {}
        self._crashes: dict[str, Crash] = {}
        self._awaited: dict[JobName, list[Crash]] = {}
        """Jobs that a crash put back and no worker has claimed yet."""
        self.books = Books()

    def read(self, events: Iterable[Event]) -> None:
        """Take in the next events."""
        for event in events:
            if event.id:
                job = (event.queue.name, event.id)
                self.books.acts[event.act] += 1
                self._note_place(job, event)
                self._note_work(job, event)
                self._state[job] = event.to

    def _note_place(self, job: JobName, event: Event) -> None:
        """Count how jobs come and go."""
        books = self.books
        match event.act:
            case Act.ENQUEUE:
                books.enqueued += 1
                books.replaced += self._state.get(job) is not None
                self._completions.pop(job, None)
                self._taken.discard(job)
                self._note_producer(job)
            case Act.PURGE if event.by:
                books.deleted += 1
            case Act.PURGE:
                self._taken.add(job)
            case Act.PRUNE:
                books.pruned += 1
            case Act.MOVE:
                pass
            case _ if self._state.get(job) is None:
                books.unexpected.append(job)
            case _:
                pass

    def _note_producer(self, job: JobName) -> None:
        if job[1].partition("@")[0] in self._ledger.schedules:
            self.books.by_schedules += 1
        elif job not in self._ledger.sent:
            self.books.by_hand += 1

    def _note_work(self, job: JobName, event: Event) -> None:
        """Count what became of deliveries."""
        books = self.books
        match event.act:
            case Act.COMPLETE:
                self._completions[job] += 1
            case Act.FAIL:
                books.retries += event.to is State.FAILING
                books.timeouts += event.note.startswith("HandlerTimeout")
            case Act.PROGRESS if event.kind == POISON:
                self._last_words[event.worker] = event.at
            case Act.EXPIRE:
                self._note_crash(job, event)
            case Act.CLAIM:
                self._note_recovery(job, event)
            case _:
                pass

    def _note_crash(self, job: JobName, event: Event) -> None:
        crash = self._crashes.get(event.worker)
        if crash is None:
            crash = self._crashes[event.worker] = self._crash(event)
            self.books.crashes.append(crash)
        crash.freed_at = max(crash.freed_at, event.at)
        crash.jobs.append(job)
        if event.to is State.QUEUED:
            crash.pending.add(job)
            self._awaited.setdefault(job, []).append(crash)

    def _crash(self, event: Event) -> Crash:
        worker = event.worker
        if (killed := self._ledger.kills.get(worker)) is not None:
            return Crash(worker, killed, by="kill -9")
        if (poisoned := self._last_words.get(worker)) is not None:
            return Crash(worker, poisoned, by="poison job")
        return Crash(worker, event.at, by="crash")

    def _note_recovery(self, job: JobName, event: Event) -> None:
        for crash in self._awaited.pop(job, ()):
            crash.pending.remove(job)
            crash.running_again = event.at
            self.books.redelivered += 1

    def close(self, queues: Queues) -> Books:
        """Compare the journal with the producer's receipts and with the store's counts."""
        books = self.books
        books.states = Counter(state for state in self._state.values() if state is not None)
        books.failed = sorted(job for job, state in self._state.items() if state is State.FAILED)
        books.lost = sorted((self._ledger.accepted - self._state.keys()) | self._taken)
        books.completed_twice = sorted(job for job, n in self._completions.items() if n > 1)
        books.disagree = [name for name in queues if not self._agrees(name, queues)]
        return books

    def _agrees(self, name: str, queues: Queues) -> bool:
        counted = Counter(s for (queue, _), s in self._state.items() if queue == name and s)
        return all(counted[state] == number for state, number in queues[name].counts().items())


def books_document(books: Books) -> dict[str, Any]:
    """The books for programs."""
    return {
        "balanced": books.balanced,
        "enqueued": books.enqueued,
        "enqueued_by_schedules": books.by_schedules,
        "enqueued_by_hand": books.by_hand,
        "states": {state.value: books.states[state] for state in State},
        "gone": books.gone,
        "lost": len(books.lost),
        "unexpected": len(books.unexpected),
        "completed_twice": len(books.completed_twice),
        "counts_disagree": books.disagree,
        "deliveries": books.acts[Act.CLAIM],
        "retries": books.retries,
        "timeouts": books.timeouts,
        "redelivered_after_crash": books.redelivered,
        "snoozed": books.acts[Act.SNOOZE],
        "crashes": [
            {
                "by": crash.by,
                "jobs": len(crash.jobs),
                "freed_after": round(crash.freed_after, 4),
                "running_again_after": crash.recovered_after,
            }
            for crash in books.crashes
        ],
    }
