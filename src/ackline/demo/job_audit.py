"""Check that no job was lost: compare the journal with the producer's receipts and the store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from ackline.core.events import Act, Event
from ackline.core.job import TERMINAL, State
from ackline.demo.workload import JobName
from ackline.queues import Queues


class AuditResult(msgspec.Struct, frozen=True):
    """What became of all jobs."""

    ok: bool
    enqueued: int
    states: dict[State, int]
    removed: int
    """Deleted, pruned, or replaced by a new job of the same id."""
    lost: list[JobName]
    completed_twice: list[JobName]
    mismatched_queues: list[str]
    """Queues whose counts in the store differ from those of the journal."""
    deliveries: int
    retries: int
    recovered: int
    """Jobs whose worker died and that were delivered again."""
    crashed_workers: int

    @property
    def unfinished(self) -> int:
        """Jobs that have not finished yet."""
        return sum(number for state, number in self.states.items() if state not in TERMINAL)


class JobAudit:
    """Follows every job through the journal."""

    def __init__(self) -> None:
        self._state: dict[JobName, State | None] = {}
        self._completions: Counter[JobName] = Counter()
        self._acts: Counter[Act] = Counter()
        self._crashed: set[str] = set()
        self._replaced = self._removed = self._retries = 0
        self._purged_without_actor: set[JobName] = set()

    def read(self, events: Iterable[Event]) -> None:
        """Count the next events."""
        for event in events:
            if event.id:
                self._count((event.queue.name, event.id), event)

    def _count(self, job: JobName, event: Event) -> None:
        self._acts[event.act] += 1
        self._retries += event.to is State.FAILING and event.act is Act.FAIL
        match event.act:
            case Act.ENQUEUE:
                self._replaced += self._state.get(job) is not None
                self._completions.pop(job, None)
            case Act.PURGE | Act.PRUNE:
                self._removed += 1
                if event.act is Act.PURGE and not event.by:
                    self._purged_without_actor.add(job)
            case Act.COMPLETE:
                self._completions[job] += 1
            case Act.EXPIRE:
                self._crashed.add(event.worker)
            case _:
                pass
        self._state[job] = event.to

    def result(self, queues: Queues, accepted: set[JobName]) -> AuditResult:
        """Compare the journal with the receipts and with the store's counts."""
        counts = defaultdict(Counter[State], {name: Counter[State]() for name in queues})
        for (name, _), state in self._state.items():
            if state is not None:
                counts[name][state] += 1
        states = {state: sum(counted[state] for counted in counts.values()) for state in State}
        lost = sorted((accepted - self._state.keys()) | self._purged_without_actor)
        twice = sorted(job for job, number in self._completions.items() if number > 1)
        mismatched = [n for n in counts if counts[n] != Counter(queues[n].counts())]
        removed = self._removed + self._replaced
        enqueued = self._acts[Act.ENQUEUE]
        return AuditResult(
            ok=not (lost or twice or mismatched) and sum(states.values()) + removed == enqueued,
            enqueued=enqueued,
            states=states,
            removed=removed,
            lost=lost,
            completed_twice=twice,
            mismatched_queues=mismatched,
            deliveries=self._acts[Act.CLAIM],
            retries=self._retries,
            recovered=self._acts[Act.EXPIRE],
            crashed_workers=len(self._crashed),
        )
