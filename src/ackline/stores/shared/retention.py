"""What is dropped when its time is over: jobs, and batches of the journal."""

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
    """How many events of the journal that a registered reader has not seen."""
    more: bool
    """Whether there may be more of the journal to drop."""


def prune_in_steps(queue: QueueKey, limit: int, step: Callable[[int], PruneResult]) -> int:
    """Prune step by step, so that others can write in between; returns how many jobs."""
    jobs, lost, more = 0, 0, True
    while more:
        done = step(limit - jobs)
        jobs, lost, more = jobs + done.jobs, lost + done.unread, done.more
    if lost:
        logger.warning(
            "the journal of %s is full: %d events were dropped that a registered reader has not "
            "seen; let it read more often, raise max_journal, or forget it",
            queue,
            lost,
        )
    return jobs


def prune_jobs(
    limit: int, drop_over: Callable[[State, int], Iterable[tuple[str, str, int]]]
) -> list[Entry]:
    """Drop ended jobs past their time; returns their entries for the journal.

    `drop_over` drops at most so many jobs of a state, and returns their id, kind and attempts.
    """
    entries: list[Entry] = []
    for state in TERMINAL_STATES:
        dropped = drop_over(state, max(limit - len(entries), 0))
        entries += [Entry(Act.PRUNE, id, kind, state, None, n) for id, kind, n in dropped]
    return entries


class TrimPlan(NamedTuple):
    """Which of the oldest batches of a journal are to be dropped."""

    batches: int = 0
    events: int = 0
    unread: int = 0
    """How many of these events a registered reader has not seen."""
    last: tuple[int, int] = (0, 0)
    """The last of these batches, and its size."""


def plan_trim(
    oldest: Iterable[tuple[int, float, int]],
    events: int,
    settings: QueueSettings,
    limit: int,
    keep_from: str | None,
    now: float,
) -> TrimPlan:
    """Which batches go: those too old that no registered reader needs, and all beyond the limit.

    `oldest` has the number, the time and the size of the oldest batches, in order; `events` is how
    many events the journal has, and `limit` how many a queue may have that does not say so itself.
    """
    reader = None if keep_from is None else read_cursor(keep_from)
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
    """Delete what a search has found; search again if all of it has changed in between.

    The search is not part of the transaction that deletes: it may have to read the whole queue.
    """
    while found := find():
        if purged := purge(found):
            return purged
    return 0
