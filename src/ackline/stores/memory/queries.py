"""Looking at jobs, queues, workers and the journal in memory."""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter

from ackline.core.events import Events, JournalBatch, read_cursor
from ackline.core.job import QueueKey, Record, State
from ackline.stores.contract import (
    Filter,
    NextDue,
    Page,
    QueueInfo,
    WorkerRecord,
    require_not_trimmed,
)
from ackline.stores.memory.data import QueueData, SortedJob, StoreData
from ackline.stores.shared.byte_limit import ByteLimit
from ackline.stores.shared.paging import decode_page_cursor, read_page, sort_key

_sort_key_of = itemgetter(0)


def get(
    data: QueueData, ids: Sequence[str], max_bytes: int | None, now: float
) -> list[Record | None]:
    """The jobs of these ids."""
    found = (data.find(id, now) for id in ids)
    within = ByteLimit(max_bytes).limit(found, lambda job: job.size() if job is not None else 0)
    return [job.record() if job is not None else None for job in within]


def lapsed(data: QueueData, now: float, limit: int) -> list[Record]:
    """Leased jobs past their deadline, the earliest first, without payload, progress, result."""
    line = data.lists[State.PROCESSING]
    if line.first_due(now) is None:
        return []
    over = [job for job in line.jobs() if job.at <= now]
    return [job.record(history=False).without_data() for job in over[:limit]]


def leases(data: QueueData, worker: str | None, limit: int, now: float) -> list[Record]:
    """Leased jobs that have lapsed, or all of one worker."""
    if worker is None:
        return lapsed(data, now, limit)
    held = [job for job in data.lists[State.PROCESSING].jobs() if job.worker == worker]
    held.sort(key=lambda job: job.num)
    return [job.record(history=False).without_data() for job in held[:limit]]


def next_due(data: QueueData) -> NextDue:
    """When the next job is due, and the next lease ends."""
    first = {
        state: job.at
        for state in (State.SCHEDULED, State.FAILING, State.PROCESSING)
        if (job := data.lists[state].first()) is not None
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
    after = decode_page_cursor(cursor, newest_first)
    listed = _sorted_jobs(data, which, newest_first)
    start = 0 if after is None else bisect.bisect_right(listed, after, key=_sort_key_of)
    matching = _matching(data, which, listed, start, now)
    shown, end = read_page(
        matching, limit, max_bytes, lambda one: one[1][1].size(), lambda one: one[1][0]
    )
    return Page([record for record, _ in shown], end)


def _sorted_jobs(data: QueueData, which: Filter, newest_first: bool) -> list[SortedJob]:
    listed = data.sorted_jobs.get(newest_first) if which.ids is None else None
    if listed is None:
        places = (
            (sort_key(job.state, job.at, job.num, newest_first), job)
            for job in data.candidates(which)
        )
        listed = sorted(places, key=_sort_key_of)
        if which.ids is None:
            # A caller that goes through all pages should not sort all jobs for each page.
            data.sorted_jobs[newest_first] = listed
    return listed


def _matching(
    data: QueueData, which: Filter, listed: list[SortedJob], start: int, now: float
) -> Iterator[tuple[Record, SortedJob]]:
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
        and (dropped or not data.is_dropped)
    ]


def workers(data: QueueData) -> list[WorkerRecord]:
    """Workers with the number of jobs that each holds."""
    holding = [job.worker for job in data.lists[State.PROCESSING].jobs()]
    return [
        WorkerRecord(
            heartbeat=entry.beat,
            last_heartbeat_at=entry.seen_at,
            expires_at=entry.expires_at,
            leases=holding.count(id),
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
    require_not_trimmed(queue, after, max((data.last_trimmed for data in queues), default=(0, 0)))
    batches = heapq.merge(
        *(_batches_from(data, start[0]) for data in queues), key=lambda batch: batch.number
    )
    return Events.up_to_limit(batches, start, limit)


def _batches_from(data: QueueData, number: int) -> Iterator[JournalBatch]:
    start = bisect.bisect_left(data.journal, number, key=lambda batch: batch.number)
    return (data.journal[at] for at in range(start, len(data.journal)))
