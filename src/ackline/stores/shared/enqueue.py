"""Decide which drafts become jobs, given the jobs that already have their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from ackline.core.config import QueueSettings
from ackline.core.errors import StoreFull
from ackline.core.events import Act, Entry
from ackline.core.job import Draft, QueueKey, State
from ackline.core.lifecycle import initial_state, keeps_id
from ackline.stores.contract import Receipt


class ExistingJob(Protocol):
    """A job that has the id of a draft."""

    @property
    def kind(self) -> str: ...

    @property
    def state(self) -> State | None:
        """None if its retention has ended, so that it counts as deleted."""


E = TypeVar("E", bound=ExistingJob)

_ENQUEUE = Act.ENQUEUE


class EnqueuePlan(msgspec.Struct, Generic[E], frozen=True):
    """What an enqueue inserts, drops, records and returns."""

    new: list[tuple[Draft, State, float]]
    """The jobs to insert, each with its state and its `at` in the list of that state."""
    replaced: list[E]
    """The jobs to drop first."""
    entries: list[Entry]
    receipts: list[Receipt]

    def require_capacity(self, queue: QueueKey, settings: QueueSettings, live: int) -> None:
        """Refuse the new jobs if the queue, which has `live` ones, would then have too many."""
        if settings.max_jobs is not None and self.new and live + len(self.new) > settings.max_jobs:
            raise StoreFull.of_queue(queue, settings.max_jobs)


def plan_enqueue(
    drafts: Sequence[Draft],
    find: Callable[[str], E | None],
    result_of: Callable[[E], bytes | None],
    now: float,
    ageing: float,
) -> EnqueuePlan[E]:
    """Decide which drafts become jobs: those whose id is free, or that replace the job with it.

    >>> plan = plan_enqueue([Draft("a", "mail", b"")] * 2, {}.get, lambda job: None, 0.0, 60.0)
    >>> [(receipt.id, receipt.accepted) for receipt in plan.receipts]
    [('a', True), ('a', False)]
    """
    new: list[tuple[Draft, State, float]] = []
    replaced: list[E] = []
    entries: list[Entry] = []
    receipts: list[Receipt] = []
    accepted: dict[str, State] = {}
    for draft in drafts:
        id, source = draft.id, None
        if id in accepted:
            receipts.append(Receipt(id, False, accepted[id]))
            continue
        existing = find(id)
        if existing is not None:
            source = existing.state
            if source is not None and keeps_id(draft, source, existing.kind):
                result = result_of(existing) if source is State.COMPLETED else None
                receipts.append(Receipt(id, False, source, result))
                continue
            replaced.append(existing)
        state, at = initial_state(draft, now, ageing)
        accepted[id] = state
        new.append((draft, state, at))
        entries.append(Entry(_ENQUEUE, id, draft.kind, source, state, priority=draft.priority))
        receipts.append(Receipt(id, True, state))
    return EnqueuePlan(new, replaced, entries, receipts)
