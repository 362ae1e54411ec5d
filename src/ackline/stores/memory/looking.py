"""Looking at jobs, queues, workers and the journal in memory."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter

from ackline.events import Batch, Events, read_cursor
from ackline.job import QueueKey, Record, State
from ackline.stores.base import (
    Filter,
    NextDue,
    Page,
    QueueInfo,
    WorkerRecord,
    require_kept,
)
from ackline.stores.budget import Budget
from ackline.stores.memory.data import Listed, QueueData, StoreData
from ackline.stores.shared.paging import place_of, read_page, read_place

_place_of = itemgetter(0)


def get(
    data: QueueData, ids: Sequence[str], max_bytes: int | None, now: float
) -> list[Record | None]:
    """The jobs of these ids."""
    found = (data.find(id, now) for id in ids)
    within = Budget(max_bytes).within(found, lambda job: job.size() if job is not None else 0)
    return [job.record() if job is not None else None for job in within]


def lapsed(data: QueueData, now: float, limit: int) -> list[Record]:
    """Leased jobs past their deadline, the earliest first, without payload, progress, result."""
    line = data.lines[State.PROCESSING]
    if line.first_due(now) is None:
        return []
    over = [job for job in line.jobs() if job.at <= now]
    return [job.record(history=False).without_data() for job in over[:limit]]


def leases(data: QueueData, worker: str | None, limit: int, now: float) -> list[Record]:
    """Leased jobs that have lapsed, or all of one worker."""
    if worker is None:
        return lapsed(data, now, limit)
    held = [job for job in data.lines[State.PROCESSING].jobs() if job.worker == worker]
    held.sort(key=lambda job: job.num)
    return [job.record(history=False).without_data() for job in held[:limit]]


def next_due(data: QueueData) -> NextDue:
    """When the next job is due, and the next lease ends."""
    first = {
        state: job.at
        for state in (State.SCHEDULED, State.FAILING, State.PROCESSING)
        if (job := data.lines[state].first()) is not None
    }
    lease = first.pop(State.PROCESSING, None)
    return NextDue(min(first.values(), default=None), lease)


def page(
    data: QueueData,
    which: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
    max_bytes: int,
    now: float,
) -> Page:
    """One page of the jobs that match."""
    after = read_place(cursor, newest_first)
    listed = _listed(data, which, newest_first)
    start = 0 if after is None else bisect.bisect_right(listed, after, key=_place_of)
    matching = _matching(data, which, listed, start, now)
    shown, end = read_page(
        matching, limit, max_bytes, lambda one: one[1][1].size(), lambda one: one[1][0]
    )
    return Page([record for record, _ in shown], end)


def _listed(data: QueueData, which: Filter, newest_first: bool) -> list[Listed]:
    listed = data.listings.get(newest_first) if which.ids is None else None
    if listed is None:
        places = (
            (place_of(job.state, job.at, job.num, newest_first), job)
            for job in data.those_of(which)
        )
        listed = sorted(places, key=_place_of)
        if which.ids is None:
            # A caller that goes through all pages should not sort all jobs for each page.
            data.listings[newest_first] = listed
    return listed


def _matching(
    data: QueueData, which: Filter, listed: list[Listed], start: int, now: float
) -> Iterator[tuple[Record, Listed]]:
    for place, job in itertools.islice(listed, start, None):
        record = job.record()
        if which.matches(record) and data.find(job.id, now) is not None:
            yield record, (place, job)


def describe(
    store: StoreData, tenant: str | None, name: str | None, dropped: bool
) -> list[QueueInfo]:
    """Queues with their counts."""
    return [
        QueueInfo(key=key, settings=data.settings, counts=data.counts())
        for key, data in sorted(store.queues.items())
        if (tenant is None or key.tenant == tenant)
        and (name is None or key.name == name)
        and (dropped or not data.dropped_queue)
    ]


def workers(data: QueueData) -> list[WorkerRecord]:
    """Workers with the number of jobs that each holds."""
    holding = [job.worker for job in data.lines[State.PROCESSING].jobs()]
    return [
        WorkerRecord(
            beat=entry.beat,
            seen_at=entry.seen_at,
            expires_at=entry.expires_at,
            holds=holding.count(id),
        )
        for id, entry in sorted(data.workers.items())
    ]


def events(
    store: StoreData, queue: QueueKey | None, after: str | None, limit: int, tenant: str | None
) -> Events:
    """The journal after a cursor."""
    start = read_cursor(after)
    if queue is None:
        queues = [s for s in store.queues.values() if tenant in (None, s.key.tenant)]
    else:
        queues = [store.queue(queue)]
    require_kept(queue, after, max((data.dropped for data in queues), default=(0, 0)))
    batches = heapq.merge(
        *(_batches_from(data, start[0]) for data in queues), key=lambda batch: batch.number
    )
    return Events.take(batches, start, limit)


def _batches_from(data: QueueData, number: int) -> Iterator[Batch]:
    start = bisect.bisect_left(data.journal, number, key=lambda batch: batch.number)
    return (data.journal[at] for at in range(start, len(data.journal)))
