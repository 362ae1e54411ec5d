"""Read jobs, queues and workers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec

from ackline.core.config import DEFAULT_SETTINGS
from ackline.core.job import QueueKey, Record, State
from ackline.stores.contract import (
    MAX_ANSWER_BYTES,
    Filter,
    NextDue,
    Page,
    QueueInfo,
    WorkerRecord,
)
from ackline.stores.redis.encode_jobs import FoundJob
from ackline.stores.redis.io.connection import Connection
from ackline.stores.redis.journal import all_queues
from ackline.stores.redis.key_names import KeyNames
from ackline.stores.redis.scripts import Scripts
from ackline.stores.shared.paging import (
    SortKey,
    decode_page_cursor,
    read_page,
    sort_key,
    start_in_state,
)
from ackline.stores.shared.record_encoding import STATES_BY_CODE, decode_heartbeat, decode_settings

READ_SIZE = 200
"""Jobs that one call reads at most, so that other clients do not wait long."""

_TIMES = struct.Struct(">dd")


def get(
    scripts: Scripts, queue: QueueKey, ids: Sequence[str], max_bytes: int | None
) -> list[Record | None]:
    """The jobs with these ids, None for ids without a job."""
    if not ids:
        return []
    found = scripts.get(queue, ids, max_bytes)
    if found.more:
        ids = ids[: ids.index(found.jobs[-1].record.id) + 1]
    records = {
        job.record.id: job.record for job in found.jobs if not _past_retention(job, found.now)
    }
    return [records.get(id) for id in ids]


def _past_retention(job: FoundJob, now: float) -> bool:
    return job.record.state.terminal and job.at <= now


# --- pages ---


class ListOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to list jobs."""

    after: SortKey | None = None
    newest_first: bool = False
    with_expired: bool = False
    """Whether to include jobs past their retention."""
    read_size: int = READ_SIZE
    max_bytes: int = MAX_ANSWER_BYTES
    """The most bytes of jobs that a call returns."""


def page(
    scripts: Scripts,
    queue: QueueKey,
    job_filter: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
    max_bytes: int,
) -> Page:
    """One page of the jobs that match."""
    options = ListOptions(
        after=decode_page_cursor(cursor, newest_first),
        newest_first=newest_first,
        read_size=max(1, min(READ_SIZE, limit + 1)),
        max_bytes=max_bytes,
    )
    found, next_cursor = read_page(
        matching(scripts, queue, job_filter, options),
        limit,
        max_bytes,
        lambda job: job.size,
        lambda job: _sort_key(job, newest_first),
    )
    return Page([job.record for job in found], next_cursor)


def matching(
    scripts: Scripts, queue: QueueKey, job_filter: Filter, options: ListOptions
) -> Iterator[FoundJob]:
    """The jobs that match, by state, then in the order of their list."""
    found = (
        _in_states(scripts, queue, job_filter, options)
        if job_filter.ids is None
        else _of_ids(scripts, queue, job_filter, options)
    )
    return (job for job in found if job_filter.matches(job.record))


def _of_ids(
    scripts: Scripts, queue: QueueKey, job_filter: Filter, options: ListOptions
) -> Iterator[FoundJob]:
    """Sort by keys alone first, then read only the wanted jobs again."""
    ids = [id.encode() for id in job_filter.ids or ()]
    keyed = sorted(
        (_sort_key(job, options.newest_first), job.record.id)
        for job in _read_current(scripts, queue, ids, options)
        if job_filter.matches(job.record)
    )
    wanted = [id.encode() for key, id in keyed if options.after is None or key > options.after]
    return _read_current(scripts, queue, wanted, options)


def _read_current(
    scripts: Scripts, queue: QueueKey, ids: Sequence[bytes], options: ListOptions
) -> Iterator[FoundJob]:
    for job, now in read_jobs(scripts, queue, ids, options.read_size, options.max_bytes):
        if options.with_expired or not _past_retention(job, now):
            yield job


def _in_states(
    scripts: Scripts, queue: QueueKey, job_filter: Filter, options: ListOptions
) -> Iterator[FoundJob]:
    for state in STATES_BY_CODE:
        start = start_in_state(options.after, state, options.newest_first)
        if state in job_filter.states and start is not None:
            yield from _in_state(scripts, queue, state, start, options)


def _in_state(
    scripts: Scripts, queue: QueueKey, state: State, start: tuple[float, int], options: ListOptions
) -> Iterator[FoundJob]:
    if state is State.PROCESSING:
        yield from leased_by_age(
            scripts, queue, start[1], options.newest_first, options.read_size, options.max_bytes
        )
        return
    size = options.read_size
    while True:
        found = scripts.page(
            queue, state, start, size, options.max_bytes, newest_first=options.newest_first
        )
        yield from (
            job for job in found.jobs if options.with_expired or not _past_retention(job, found.now)
        )
        if len(found.jobs) < size and not found.more:
            return
        start, size = (found.jobs[-1].at, found.jobs[-1].number), READ_SIZE


def _sort_key(job: FoundJob, newest_first: bool) -> SortKey:
    return sort_key(job.record.state, job.at, job.number, newest_first)


# --- queues and workers ---


def describe(
    scripts: Scripts, tenant: str | None, name: str | None, dropped: bool
) -> list[QueueInfo]:
    """Queues with their counts."""
    connection, names = scripts.connection, scripts.names
    if tenant is not None and name is not None:
        keys = [QueueKey(tenant, name)]
    else:
        keys = [
            key
            for key in all_queues(connection, names)
            if (tenant is None or key.tenant == tenant) and (name is None or key.name == name)
        ]
    with connection.translate_errors:
        pipe = connection.client.pipeline(transaction=False)
        for key in keys:
            pipe.hget(f"{names.base(key)}:queue", "settings")
            pipe.hgetall(f"{names.base(key)}:counts")
        answers = pipe.execute()
    return [
        QueueInfo(
            key=key,
            settings=DEFAULT_SETTINGS if settings is None else decode_settings(settings),
            counts={
                state: int(counts.get(b"%d" % code, 0)) for code, state in enumerate(STATES_BY_CODE)
            },
        )
        for key, settings, counts in zip(keys, answers[::2], answers[1::2], strict=True)
        if settings is not None or dropped
    ]


def next_due(connection: Connection, names: KeyNames, queues: Sequence[QueueKey]) -> list[NextDue]:
    """For each queue, when its next job is due and when its next lease lapses."""
    with connection.translate_errors:
        pipe = connection.client.pipeline(transaction=False)
        for queue in queues:
            for state in ("scheduled", "failing", "processing"):
                pipe.zrange(f"{names.base(queue)}:{state}", 0, 0, withscores=True)
        first_times = [found[0][1] if found else None for found in pipe.execute()]
    return [
        NextDue(min((at for at in due if at is not None), default=None), lease)
        for *due, lease in zip(*[iter(first_times)] * 3, strict=True)
    ]


def workers(
    connection: Connection, names: KeyNames, queues: Sequence[QueueKey]
) -> list[list[WorkerRecord]]:
    """For each queue, its workers, each with the number of its leases."""
    with connection.translate_errors:
        pipe = connection.client.pipeline(transaction=False)
        for queue in queues:
            pipe.hgetall(f"{names.base(queue)}:workers")
            pipe.hgetall(f"{names.base(queue)}:lease_counts")
        answers = pipe.execute()
    return [
        sorted(
            (_worker(packed, int(leases.get(id, 0))) for id, packed in found.items()),
            key=lambda worker: worker.heartbeat.id,
        )
        for found, leases in zip(answers[::2], answers[1::2], strict=True)
    ]


def _worker(packed: bytes, leases: int) -> WorkerRecord:
    last_heartbeat_at, expires_at = _TIMES.unpack_from(packed)
    return WorkerRecord(
        heartbeat=decode_heartbeat(packed[_TIMES.size :]),
        last_heartbeat_at=last_heartbeat_at,
        expires_at=expires_at,
        leases=leases,
    )


# --- leased jobs: there may be very many, so they are read in small parts ---

SCAN_COUNT = 500
"""Leased jobs whose ids are read in one call."""

_NUMBER = struct.Struct(">HI")


def leases(scripts: Scripts, queue: QueueKey, worker: str | None, limit: int) -> list[Record]:
    """Jobs whose lease has lapsed, or those that one worker has leased."""
    if worker is None:
        return [job.record for job in scripts.lapsed(queue, limit)]
    found: dict[str, FoundJob] = {}
    for members in _scan(scripts, queue):
        for job in scripts.leased_by(queue, worker, limit, members):
            found[job.record.id] = job
        if len(found) >= limit:
            break
    return [job.record for job in sorted(found.values(), key=lambda job: job.number)][:limit]


def leased_by_age(
    scripts: Scripts,
    queue: QueueKey,
    after: int,
    newest_first: bool,
    size: int,
    max_bytes: int,
) -> Iterator[FoundJob]:
    """Leased jobs after a number, by number; each call reads `size` of them."""
    found = {member for members in _scan(scripts, queue) for member in members}
    numbered = sorted(((_number(member), member) for member in found), reverse=newest_first)
    ids = [
        member[_NUMBER.size :]
        for number, member in numbered
        if (number < after if newest_first else number > after)
    ]
    for job, _ in read_jobs(scripts, queue, ids, size, max_bytes):
        # Without jobs whose lease has ended since.
        if job.record.state is State.PROCESSING:
            yield job


def read_jobs(
    scripts: Scripts, queue: QueueKey, ids: Sequence[bytes], size: int, max_bytes: int
) -> Iterator[tuple[FoundJob, float]]:
    """The jobs with these ids, each with the server's time.

    Each call reads `size` of them, or fewer once they have `max_bytes`.
    """
    while ids:
        found = scripts.get(queue, ids[:size], max_bytes)
        yield from ((job, found.now) for job in found.jobs)
        last = found.jobs[-1].record.id.encode() if found.more else None
        ids = ids[size if last is None else ids.index(last) + 1 :]


def _scan(scripts: Scripts, queue: QueueKey) -> Iterator[list[bytes]]:
    """The members of the list of leased jobs, some at a time; a member may be repeated."""
    cursor, key = 0, f"{scripts.names.base(queue)}:processing"
    while True:
        with scripts.connection.translate_errors:
            cursor, found = scripts.connection.client.zscan(key, cursor, count=SCAN_COUNT)
        if found:
            yield [member for member, _ in found]
        if not cursor:
            return


def _number(member: bytes) -> int:
    """The number of a job, which `lua/lib/job.lua` puts before its id."""
    high, low = _NUMBER.unpack_from(member)
    return int(high << 32 | low)
