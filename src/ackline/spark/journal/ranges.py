"""The journal in stretches that can be read separately, in parallel and repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import Events, make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.spark.store.retry import retry_transient
from ackline.spark.store.task_balance import balance

SAMPLE_SIZE = 20
"""Events of a queue that are read to judge how many it has: few, because each queue is asked."""

RANGES_PER_TASK = 4
"""A queue is cut if it has more than this part of what a task should have: what is large is only
estimated, and so no task depends on one estimate."""


class JournalRange(msgspec.Struct, frozen=True):
    """The events of one queue after `after`, up to and including `until`."""

    queue: str
    after: str
    until: str


def plan_ranges(
    queues: Queues, starts: Mapping[str, str], ends: Mapping[str, str], tasks: int
) -> list[list[JournalRange]]:
    """The journals between two places, for about this many tasks.

    Small queues share a task, a large one is cut. Which task reads what depends only on what the
    journals have there, and all tasks together read the same in any case.
    """
    whole = [
        JournalRange(queue, starts[queue], end)
        for queue, end in ends.items()
        if read_cursor(starts[queue]) < read_cursor(end)
    ]
    sizes = {stretch: _estimate_rows(queues, stretch) for stretch in whole}
    return balance(_split_large(sizes, tasks), tasks)


def _estimate_rows(queues: Queues, stretch: JournalRange) -> int:
    """How many events a stretch has: exact if they are few, else judged by the first of them."""
    key = QueueKey(queues.tenant, stretch.queue)
    try:
        found = Events.from_sequence(queues.store.events(key, stretch.after, SAMPLE_SIZE))
    except EventsDropped:
        return 0  # Whoever reads it says so.
    page = found.until(stretch.until)
    if page.cursor is None or len(page) < SAMPLE_SIZE:
        return len(page)
    first, here, last = (read_cursor(at)[0] for at in (stretch.after, page.cursor, stretch.until))
    return len(page) * max(1, last - first) // max(1, here - first)


def _split_large(sizes: Mapping[JournalRange, int], tasks: int) -> dict[JournalRange, int]:
    """Large stretches in several pieces of about equal length."""
    least, pieces = tasks // max(1, len(sizes)), tasks * RANGES_PER_TASK
    total = max(1, sum(sizes.values()))
    shorter: dict[JournalRange, int] = {}
    for stretch, size in sizes.items():
        share = max(least, -(-pieces * size // total))
        steps = [*_split(stretch, min(share, tasks, size))]
        shorter |= dict.fromkeys(steps, size // len(steps))
    return shorter


def _split(stretch: JournalRange, count: int) -> Iterator[JournalRange]:
    """Cut by the numbers of batches, so that no event has to be read for it."""
    first, last = read_cursor(stretch.after)[0], read_cursor(stretch.until)[0]
    count = max(1, min(count, last - first))
    marks = [make_cursor(first + (last - first) * step // count, 0) for step in range(1, count)]
    return map(
        partial(JournalRange, stretch.queue), [stretch.after, *marks], [*marks, stretch.until]
    )


def read_range(
    queues: Queues, stretch: JournalRange, page_size: Callable[[], int], retry_for: float
) -> Iterator[Events]:
    """The events of a stretch, a page at a time; `EventsDropped` if some are gone."""
    key, after = QueueKey(queues.tenant, stretch.queue), stretch.after
    while True:
        found = Events.from_sequence(
            retry_transient(partial(queues.store.events, key, after, page_size()), retry_for)
        )
        page = found.until(stretch.until)
        if page.cursor is not None:
            yield page
        if page.cursor is None or page.cursor != found.cursor:
            return
        after = page.cursor
