"""What is dropped when its retention ends: jobs, and batches of the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeVar

from ackline.core.config import QueueSettings
from ackline.core.events import Act, Entry, count_unread, read_cursor
from ackline.core.job import TERMINAL, QueueKey, State

logger = logging.getLogger("ackline")

FoundJobs = TypeVar("FoundJobs", bound=Collection[object])

TERMINAL_STATES = tuple(state for state in State if state in TERMINAL)


class PruneResult(NamedTuple):
    """What one step of a prune has dropped."""

    jobs: int
    unread: int
    """How many dropped events a registered reader had not read."""
    more: bool
    """Whether more of the journal may have to be dropped."""


def prune_in_steps(queue: QueueKey, limit: int, step: Callable[[int], PruneResult]) -> int:
    """Prune in steps, so that others can write in between; returns how many jobs."""
    jobs, unread, more = 0, 0, True
    while more:
        done = step(limit - jobs)
        jobs, unread, more = jobs + done.jobs, unread + done.unread, done.more
    if unread:
        logger.warning(
            "the journal of %s is full: %d events were dropped that a registered reader had not "
            "read; let it read more often, raise max_journal, or remove the reader",
            queue,
            unread,
        )
    return jobs


def prune_jobs(
    limit: int, drop_expired: Callable[[State, int], Iterable[tuple[str, str, int]]]
) -> list[Entry]:
    """Drop terminal jobs past their retention; returns their journal entries.

    `drop_expired` drops at most `limit` jobs of a state, and returns their id, kind and attempts.
    """
    entries: list[Entry] = []
    for state in TERMINAL_STATES:
        dropped = drop_expired(state, max(limit - len(entries), 0))
        entries += [Entry(Act.PRUNE, id, kind, state, None, n) for id, kind, n in dropped]
    return entries


class TrimPlan(NamedTuple):
    """Which of the oldest batches of a journal to drop."""

    batches: int = 0
    events: int = 0
    unread: int = 0
    """How many of these events a registered reader has not read."""
    last: tuple[int, int] = (0, 0)
    """The number of the last of these batches, and its size."""


def plan_trim(
    oldest: Iterable[tuple[int, float, int]],
    events: int,
    settings: QueueSettings,
    limit: int,
    needed_after: str | None,
    now: float,
) -> TrimPlan:
    """Plan to drop batches that are too old and that no reader needs, and all beyond the limit.

    `oldest` has the number, the time and the size of the oldest batches, in order; `events` is how
    many events the journal has; `limit` is the most events of a queue whose settings have no limit.
    """
    reader = None if needed_after is None else read_cursor(needed_after)
    surplus = events - (limit if settings.max_journal is None else settings.max_journal)
    too_old = now - settings.keep_journal
    trim = TrimPlan()
    for number, at, size in oldest:
        needed = count_unread(number, size, reader)
        if trim.events >= surplus and (at >= too_old or needed):
            break
        trim = TrimPlan(trim.batches + 1, trim.events + size, trim.unread + needed, (number, size))
    return trim


def find_and_purge(find: Callable[[], FoundJobs], purge: Callable[[FoundJobs], int]) -> int:
    """Delete what a search has found; search again if all of it has changed since.

    The search is not part of the transaction that deletes: it may have to read the whole queue.
    """
    while found := find():
        if purged := purge(found):
            return purged
    return 0
