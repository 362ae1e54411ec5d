"""Deleting many jobs in steps, each of which takes a moment only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ackline.core.limits import truncate_note
from ackline.stores.contract import Filter, Store

if TYPE_CHECKING:
    from ackline.queue.observe import Observer

BULK_PAGE_SIZE = 500
"""Jobs per step of an act on many."""

MAX_CLOCK_SKEW = 1.0
"""A time that is more seconds than this ahead of the clock is from before the clock was set back;
one that is less ahead may be that of another node of a cluster."""

ProgressSteps = Generator[int, None, int]
"""Yields how many jobs each step acted on; returns how many all did."""


def purge_steps(queue: Observer[Any, Any], which: Filter, by: str) -> ProgressSteps:
    """Delete what matches and was there when the first step began."""
    began = queue.store.now()
    total = 0
    for part in _split_ids(which):
        total += yield from _purge_older(queue, part, began, by)
    return total


def existed_at(store: Store, began: float, jobs: list[tuple[str, float]]) -> list[str]:
    """The ids of those jobs, given with their times, that were there when an act began.

    A time in the future counts as older: it is from before the clock was set back.
    """
    now = began
    if any(at > began for _, at in jobs):
        now = store.now() + MAX_CLOCK_SKEW
    return [id for id, at in jobs if not began < at <= now]


def _purge_older(queue: Observer[Any, Any], which: Filter, began: float, by: str) -> ProgressSteps:
    # Just above now, because a job created at this very moment was there already.
    later = math.nextafter(began, math.inf)
    earlier = msgspec.structs.replace(which, created_before=later)
    total = yield from _purge(queue, earlier, by)
    after = msgspec.structs.replace(which, created_after=later)
    cursor = None
    while True:
        page = queue.store.page(queue.key, after, cursor, BULK_PAGE_SIZE)
        older = existed_at(queue.store, began, [(job.id, job.created_at) for job in page.jobs])
        if older:
            only_older = msgspec.structs.replace(which, ids=frozenset(older))
            total += yield from _purge(queue, only_older, by)
        else:
            yield 0
        cursor = page.cursor
        if cursor is None:
            return total


def _purge(queue: Observer[Any, Any], which: Filter, by: str) -> ProgressSteps:
    total = 0
    while count := queue.store.purge(queue.key, which, BULK_PAGE_SIZE, truncate_note(by)):
        total += count
        yield count
    return total


def _split_ids(which: Filter) -> Iterator[Filter]:
    """The same filter, for some ids at a time: a service refuses too many at once."""
    if which.ids is None:
        yield which
        return
    left = iter(which.ids)
    while part := frozenset(itertools.islice(left, BULK_PAGE_SIZE)):
        yield msgspec.structs.replace(which, ids=part)
