"""The journal in ranges that can be read separately, in parallel and repeatedly."""

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
"""Events of a queue that are read to estimate how many it has."""

RANGES_PER_TASK = 4
"""A queue is split if it has more than this fraction of a task: sizes are only estimates, so each
task gets several ranges."""


class JournalRange(msgspec.Struct, frozen=True):
    """The events of one queue after `after`, up to and including `until`."""

    queue: str
    after: str
    until: str


def plan_ranges(
    queues: Queues, starts: Mapping[str, str], ends: Mapping[str, str], tasks: int
) -> list[list[JournalRange]]:
    """The journals between two cursors, split among about this many tasks.

    Small queues share a task, a large one is split. All tasks together read the same events
    however they are split.
    """
    whole = [
        JournalRange(queue, starts[queue], end)
        for queue, end in ends.items()
        if read_cursor(starts[queue]) < read_cursor(end)
    ]
    sizes = {journal_range: _estimate_rows(queues, journal_range) for journal_range in whole}
    return balance(_split_large(sizes, tasks), tasks)


def _estimate_rows(queues: Queues, journal_range: JournalRange) -> int:
    """How many events a range has: exact if there are few, else estimated from the first."""
    key = QueueKey(queues.tenant, journal_range.queue)
    try:
        found = Events.from_sequence(queues.store.events(key, journal_range.after, SAMPLE_SIZE))
    except EventsDropped:
        return 0  # Reading it raises the error.
    page = found.until(journal_range.until)
    if page.cursor is None or len(page) < SAMPLE_SIZE:
        return len(page)
    first, here, last = (
        read_cursor(at)[0] for at in (journal_range.after, page.cursor, journal_range.until)
    )
    return len(page) * max(1, last - first) // max(1, here - first)


def _split_large(sizes: Mapping[JournalRange, int], tasks: int) -> dict[JournalRange, int]:
    """Split large ranges into several of about equal length."""
    least, pieces = tasks // max(1, len(sizes)), tasks * RANGES_PER_TASK
    total = max(1, sum(sizes.values()))
    shorter: dict[JournalRange, int] = {}
    for journal_range, size in sizes.items():
        share = max(least, -(-pieces * size // total))
        steps = [*_split(journal_range, min(share, tasks, size))]
        shorter |= dict.fromkeys(steps, size // len(steps))
    return shorter


def _split(journal_range: JournalRange, count: int) -> Iterator[JournalRange]:
    """Split by the numbers of batches, so that no event has to be read for it."""
    first, last = read_cursor(journal_range.after)[0], read_cursor(journal_range.until)[0]
    count = max(1, min(count, last - first))
    marks = [make_cursor(first + (last - first) * step // count, 0) for step in range(1, count)]
    return map(
        partial(JournalRange, journal_range.queue),
        [journal_range.after, *marks],
        [*marks, journal_range.until],
    )


def read_range(
    queues: Queues, journal_range: JournalRange, page_size: Callable[[], int], retry_for: float
) -> Iterator[Events]:
    """The events of a range, a page at a time; `EventsDropped` if some are gone."""
    key, after = QueueKey(queues.tenant, journal_range.queue), journal_range.after
    while True:
        found = Events.from_sequence(
            retry_transient(partial(queues.store.events, key, after, page_size()), retry_for)
        )
        page = found.until(journal_range.until)
        if page.cursor is not None:
            yield page
        if page.cursor is None or page.cursor != found.cursor:
            return
        after = page.cursor
