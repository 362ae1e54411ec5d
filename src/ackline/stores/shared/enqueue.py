"""What becomes of drafts, given the jobs that already have their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from ackline.config import QueueSettings
from ackline.errors import StoreFull
from ackline.events import Act, Entry
from ackline.job import Draft, QueueKey, State
from ackline.lifecycle import keeps_id
from ackline.stores.base import Receipt


class Existing(Protocol):
    """A job that has the id of a draft."""

    @property
    def kind(self) -> str: ...

    @property
    def state(self) -> State | None:
        """None if its retention is over, so that it counts as gone."""


E = TypeVar("E", bound=Existing)


class EnqueuePlan(Generic[E]):
    """Which drafts become jobs, which existing jobs they replace, and how each draft is answered.

    >>> plan = EnqueuePlan([Draft("a", "mail", b""), Draft("a", "mail", b"")], {})
    >>> [draft.id for draft in plan.new]
    ['a']
    """

    def __init__(self, drafts: Sequence[Draft], existing: Mapping[str, E]) -> None:
        self._drafts = drafts
        self._existing = existing
        fresh: dict[str, Draft] = {}
        for draft in drafts:
            there = existing.get(draft.id)
            if there is None or there.state is None or not keeps_id(draft, there.state, there.kind):
                fresh.setdefault(draft.id, draft)
        self._fresh = fresh
        self.new = list(fresh.values())
        """The drafts to insert."""
        self.replaced = [existing[id] for id in fresh if id in existing] if existing else []
        """The jobs to drop before."""

    def require_room(self, queue: QueueKey, settings: QueueSettings, live: int) -> None:
        """Refuse the new jobs if the queue would have too many, now that it has `live` ones."""
        if settings.max_jobs is not None and self.new and live + len(self.new) > settings.max_jobs:
            raise StoreFull.of_queue(queue, settings.max_jobs)

    def entries(self, states: Sequence[State]) -> list[Entry]:
        """The entries for the journal, given the state of each new job."""
        existing = self._existing
        sources = [
            there.state if (there := existing.get(draft.id)) is not None else None
            for draft in self.new
        ]
        return [
            Entry(Act.ENQUEUE, draft.id, draft.kind, source, state, priority=draft.priority)
            for draft, source, state in zip(self.new, sources, states, strict=True)
        ]

    def receipts(
        self, states: Sequence[State], result_of: Callable[[E], bytes | None]
    ) -> list[Receipt]:
        """The answer to each draft; `result_of` reads the result of a completed job."""
        if len(self.new) == len(self._drafts):
            return accepted(self.new, states)
        state_of = dict(zip(self._fresh, states, strict=True))
        receipts, accepted_ids = [], set[str]()
        for draft in self._drafts:
            if draft.id in accepted_ids:
                receipts.append(Receipt(draft.id, False, state_of[draft.id]))
            elif self._fresh.get(draft.id) is draft:
                receipts.append(Receipt(draft.id, True, state_of[draft.id]))
                accepted_ids.add(draft.id)
            else:
                there = self._existing[draft.id]
                assert there.state is not None
                result = result_of(there) if there.state is State.COMPLETED else None
                receipts.append(Receipt(draft.id, False, there.state, result))
        return receipts


def accepted(drafts: Sequence[Draft], states: Sequence[State]) -> list[Receipt]:
    """The answers to drafts that have all become jobs."""
    return [Receipt(draft.id, True, state) for draft, state in zip(drafts, states, strict=True)]
