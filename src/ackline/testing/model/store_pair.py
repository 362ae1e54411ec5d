"""The store under test and the memory store, driven together to compare their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from ackline.core.clock import ManualClock
from ackline.core.events import Event
from ackline.core.job import QueueKey, Record
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import ClaimRequest, ClaimResult, Filter, Page, Store
from ackline.stores.memory import MemoryStore
from ackline.testing.journal_checker import JournalChecker

T = TypeVar("T")

NO_LIMIT = 1000

JobPair = tuple[Record, Record]
"""One job as the candidate and as the reference returned it."""


class TrackedStore:
    """One of the two stores.

    Each store chooses its own tokens, as long as they grow; so leases are numbered in the order
    of the claims, and these numbers are compared instead.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._numbers: dict[tuple[QueueKey, str, int], int] = {}
        self._last_token: dict[QueueKey, int] = {}
        self._cursors: dict[QueueKey, str] = {}
        self._leases = 0
        self.journal_checker = JournalChecker()

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition]
    ) -> ClaimResult:
        claimed = self.store.claim(queue, request, transitions)
        last = self._last_token.get(queue, 0)
        for job in claimed.jobs:
            assert job.token > last, f"token {job.token} of {job.id!r} is not above {last}"
            self._last_token[queue] = max(self._last_token.get(queue, 0), job.token)
            self._leases += 1
            self._numbers[queue, job.id, job.token] = self._leases
        return claimed

    def follow_move(self, queue: QueueKey, target: QueueKey, id: str) -> None:
        """Record that a moved job kept the tokens of its leases."""
        for (owner, job, token), number in list(self._numbers.items()):
            if (owner, job) == (queue, id):
                self._numbers[target, id, token] = number

    def with_lease_numbers(self, queue: QueueKey, record: Record | None) -> Record | None:
        """A job whose tokens are replaced by the numbers of their leases."""
        if record is None:
            return None

        def number(token: int) -> int:
            return self._numbers.get((queue, record.id, token), -1) if token else 0

        history = tuple(
            msgspec.structs.replace(ended, token=number(ended.token)) for ended in record.history
        )
        return msgspec.structs.replace(record, token=number(record.token), history=history)

    def cursor(self, queue: QueueKey) -> str | None:
        """Where the last read of the journal ended."""
        return self._cursors.get(queue)

    def new_events(self, queue: QueueKey) -> list[Event]:
        """Journal entries since the last read, fetched by cursor in two steps."""
        found: list[Event] = []
        for limit in (3, NO_LIMIT):
            found += self.store.events(queue, self._cursors.get(queue), limit)
            if found:
                self._cursors[queue] = found[-1].cursor
        self.journal_checker.follow(found)
        return found


class StorePair:
    """Both stores at once: every call is made on both, and the results are compared."""

    def __init__(self, candidate: Store, clock: ManualClock) -> None:
        self.clock = clock
        self.candidate = TrackedStore(candidate)
        self.reference = TrackedStore(MemoryStore(clock))

    def both(self, verb: Callable[[Store], T]) -> T:
        """Make a call whose result has no tokens in it."""
        ours, theirs = verb(self.candidate.store), verb(self.reference.store)
        assert ours == theirs
        return ours

    def claim(
        self, queue: QueueKey, request: ClaimRequest, steps: Iterable[tuple[Transition, Transition]]
    ) -> tuple[list[JobPair], list[JobPair]]:
        """Claim; returns the claimed jobs and those whose lease has expired."""
        steps = list(steps)
        ours = self.candidate.claim(queue, request, [step for step, _ in steps])
        theirs = self.reference.claim(queue, request, [step for _, step in steps])
        assert ours.verdicts == theirs.verdicts
        assert (ours.next_at, ours.now) == (theirs.next_at, theirs.now)
        return self.compare_jobs(queue, ours.jobs, theirs.jobs), self.compare_jobs(
            queue, ours.lapsed, theirs.lapsed
        )

    def apply(
        self, queue: QueueKey, steps: Iterable[tuple[Transition, Transition]]
    ) -> list[Verdict]:
        steps = list(steps)
        ours = self.candidate.store.apply(queue, [step for step, _ in steps])
        theirs = self.reference.store.apply(queue, [step for _, step in steps])
        assert ours == theirs
        for (step, _), verdict in zip(steps, ours, strict=True):
            if verdict.applied and step.target is not None:
                for tracked in (self.candidate, self.reference):
                    tracked.follow_move(queue, step.target, step.id)
        return ours

    def prune(self, queue: QueueKey, registered: bool) -> int:
        """Prune; with our reader registered, entries that it has not read are kept."""
        ours, theirs = (
            tracked.store.prune(queue, NO_LIMIT, tracked.cursor(queue) if registered else None)
            for tracked in (self.candidate, self.reference)
        )
        assert ours == theirs
        return ours

    def leases(self, queue: QueueKey, worker: str | None) -> list[JobPair]:
        ours = self.candidate.store.leases(queue, worker=worker)
        theirs = self.reference.store.leases(queue, worker=worker)
        return self.compare_jobs(queue, ours, theirs)

    def page(self, queue: QueueKey, which: Filter, size: int) -> list[JobPair]:
        """All pages of a filter, in both orders."""
        for newest_first in (True, False):
            ours, theirs = (
                _all_pages(tracked.store, queue, which, size, newest_first)
                for tracked in (self.candidate, self.reference)
            )
            pairs = self.compare_jobs(queue, ours, theirs)
        return pairs

    def compare_jobs(
        self, queue: QueueKey, ours: Sequence[Record], theirs: Sequence[Record]
    ) -> list[JobPair]:
        """Pair the jobs of both stores, which may differ only in their tokens."""
        assert [self.candidate.with_lease_numbers(queue, job) for job in ours] == [
            self.reference.with_lease_numbers(queue, job) for job in theirs
        ]
        return list(zip(ours, theirs, strict=True))


def _all_pages(
    store: Store, queue: QueueKey, which: Filter, size: int, newest_first: bool
) -> list[Record]:
    found: list[Record] = []
    page = Page([], None)
    while True:
        page = store.page(queue, which, page.cursor, size, newest_first)
        found += page.jobs
        if page.cursor is None:
            return found
