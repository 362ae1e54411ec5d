"""Reading jobs, queues, workers and the journal in memory."""

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
    """The jobs with these ids."""
    found = (data.find(id, now) for id in ids)
    within = ByteLimit(max_bytes).limit(found, lambda job: job.size() if job is not None else 0)
    return [job.record() if job is not None else None for job in within]


def lapsed(data: QueueData, now: float, limit: int) -> list[Record]:
    """Leased jobs past their deadline, earliest first, without payload, progress and result."""
    leased = data.lists[State.PROCESSING]
    if leased.first_due(now) is None:
        return []
    lapsed_jobs = [job for job in leased.jobs() if job.at <= now]
    return [job.record(history=False).without_data() for job in lapsed_jobs[:limit]]


def leases(data: QueueData, worker: str | None, limit: int, now: float) -> list[Record]:
    """The leased jobs whose lease has lapsed, or all leased by one worker."""
    if worker is None:
        return lapsed(data, now, limit)
    leased = [job for job in data.lists[State.PROCESSING].jobs() if job.worker == worker]
    leased.sort(key=lambda job: job.num)
    return [job.record(history=False).without_data() for job in leased[:limit]]


def next_due(data: QueueData) -> NextDue:
    """When the next job is due, and when the next lease ends."""
    first = {
        state: job.at
        for state in (State.SCHEDULED, State.FAILING, State.PROCESSING)
        if (job := data.lists[state].first()) is not None
    }
    lease = first.pop(State.PROCESSING, None)
    return NextDue(min(first.values(), default=None), lease)


def page(
    data: QueueData,
    job_filter: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
    max_bytes: int,
    now: float,
) -> Page:
    """One page of the matching jobs."""
    after = decode_page_cursor(cursor, newest_first)
    listed = _sorted_jobs(data, job_filter, newest_first)
    start = 0 if after is None else bisect.bisect_right(listed, after, key=_sort_key_of)
    matching = _matching(data, job_filter, listed, start, now)
    shown, end = read_page(
        matching, limit, max_bytes, lambda found: found[1][1].size(), lambda found: found[1][0]
    )
    return Page([record for record, _ in shown], end)


def _sorted_jobs(data: QueueData, job_filter: Filter, newest_first: bool) -> list[SortedJob]:
    listed = data.sorted_jobs.get(newest_first) if job_filter.ids is None else None
    if listed is None:
        keyed = (
            (sort_key(job.state, job.at, job.num, newest_first), job)
            for job in data.candidates(job_filter)
        )
        listed = sorted(keyed, key=_sort_key_of)
        if job_filter.ids is None:
            # Do not sort all jobs again for each page.
            data.sorted_jobs[newest_first] = listed
    return listed


def _matching(
    data: QueueData, job_filter: Filter, listed: list[SortedJob], start: int, now: float
) -> Iterator[tuple[Record, SortedJob]]:
    for key, job in itertools.islice(listed, start, None):
        record = job.record()
        if job_filter.matches(record) and data.find(job.id, now) is not None:
            yield record, (key, job)


def describe(
    store: StoreData, tenant: str | None, name: str | None, include_dropped: bool
) -> list[QueueInfo]:
    """Queues with their settings and counts."""
    return [
        QueueInfo(key=key, settings=data.settings, counts=data.counts())
        for key, data in sorted(store.queues.items())
        if (tenant is None or key.tenant == tenant)
        and (name is None or key.name == name)
        and (include_dropped or not data.is_dropped)
    ]


def workers(data: QueueData) -> list[WorkerRecord]:
    """Workers with the number of their leases."""
    workers_of_leases = [job.worker for job in data.lists[State.PROCESSING].jobs()]
    return [
        WorkerRecord(
            heartbeat=entry.heartbeat,
            last_heartbeat_at=entry.received_at,
            expires_at=entry.expires_at,
            leases=workers_of_leases.count(id),
        )
        for id, entry in sorted(data.workers.items())
    ]


def events(
    store: StoreData, queue: QueueKey | None, after: str | None, limit: int, tenant: str | None
) -> Events:
    """The events after a cursor."""
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
