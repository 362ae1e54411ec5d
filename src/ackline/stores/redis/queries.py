"""Looking at jobs, queues and workers."""

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
"""How many jobs are looked at in one call, so that nobody else waits long."""

_TIMES = struct.Struct(">dd")


def get(
    scripts: Scripts, queue: QueueKey, ids: Sequence[str], max_bytes: int | None
) -> list[Record | None]:
    """The jobs of these ids."""
    if not ids:
        return []
    found = scripts.get(queue, ids, max_bytes)
    if found.more:
        ids = ids[: ids.index(found.jobs[-1].record.id) + 1]
    kept = {
        seen.record.id: seen.record for seen in found.jobs if not _past_retention(seen, found.now)
    }
    return [kept.get(id) for id in ids]


def _past_retention(seen: FoundJob, now: float) -> bool:
    return seen.record.state.terminal and seen.at <= now


# --- pages ---


class ListOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to go through a list of jobs."""

    after: SortKey | None = None
    newest_first: bool = False
    kept: bool
    """Whether to leave out jobs whose retention is over."""
    chunk: int = READ_SIZE
    max_bytes: int = MAX_ANSWER_BYTES
    """After how many bytes of jobs a call ends."""


def page(
    scripts: Scripts,
    queue: QueueKey,
    which: Filter,
    cursor: str | None,
    limit: int,
    newest_first: bool,
    max_bytes: int,
) -> Page:
    """One page of the jobs that match."""
    walk = ListOptions(
        after=decode_page_cursor(cursor, newest_first),
        newest_first=newest_first,
        kept=True,
        chunk=max(1, min(READ_SIZE, limit + 1)),
        max_bytes=max_bytes,
    )
    shown, end = read_page(
        matching(scripts, queue, which, walk),
        limit,
        max_bytes,
        lambda seen: seen.size,
        lambda seen: _sort_key(seen, newest_first),
    )
    return Page([seen.record for seen in shown], end)


def matching(
    scripts: Scripts, queue: QueueKey, which: Filter, walk: ListOptions
) -> Iterator[FoundJob]:
    """The jobs that match, by state, then in the order of their line."""
    found = (
        _in_states(scripts, queue, which, walk)
        if which.ids is None
        else _of_ids(scripts, queue, which, walk)
    )
    return (seen for seen in found if which.matches(seen.record))


def _of_ids(
    scripts: Scripts, queue: QueueKey, which: Filter, walk: ListOptions
) -> Iterator[FoundJob]:
    """First only their places are kept, then as many jobs are read again as are wanted."""
    ids = [id.encode() for id in which.ids or ()]
    placed = sorted(
        (_sort_key(seen, walk.newest_first), seen.record.id)
        for seen in _read_current(scripts, queue, ids, walk)
        if which.matches(seen.record)
    )
    behind = [id.encode() for place, id in placed if walk.after is None or place > walk.after]
    return _read_current(scripts, queue, behind, walk)


def _read_current(
    scripts: Scripts, queue: QueueKey, ids: Sequence[bytes], walk: ListOptions
) -> Iterator[FoundJob]:
    for seen, now in read_jobs(scripts, queue, ids, walk.chunk, walk.max_bytes):
        if not walk.kept or not _past_retention(seen, now):
            yield seen


def _in_states(
    scripts: Scripts, queue: QueueKey, which: Filter, walk: ListOptions
) -> Iterator[FoundJob]:
    for state in STATES_BY_CODE:
        start = start_in_state(walk.after, state, walk.newest_first)
        if state in which.states and start is not None:
            yield from _in_state(scripts, queue, state, start, walk)


def _in_state(
    scripts: Scripts, queue: QueueKey, state: State, start: tuple[float, int], walk: ListOptions
) -> Iterator[FoundJob]:
    if state is State.PROCESSING:
        yield from leased_by_age(
            scripts, queue, start[1], walk.newest_first, walk.chunk, walk.max_bytes
        )
        return
    size = walk.chunk
    while True:
        found = scripts.page(
            queue, state, start, size, walk.max_bytes, newest_first=walk.newest_first
        )
        yield from (
            seen for seen in found.jobs if not walk.kept or not _past_retention(seen, found.now)
        )
        if len(found.jobs) < size and not found.more:
            return
        start, size = (found.jobs[-1].at, found.jobs[-1].number), READ_SIZE


def _sort_key(seen: FoundJob, newest_first: bool) -> SortKey:
    return sort_key(seen.record.state, seen.at, seen.number, newest_first)


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
    """For each queue, when its next job is due and its next lease ends."""
    with connection.translate_errors:
        pipe = connection.client.pipeline(transaction=False)
        for queue in queues:
            for line in ("scheduled", "failing", "processing"):
                pipe.zrange(f"{names.base(queue)}:{line}", 0, 0, withscores=True)
        firsts = [found[0][1] if found else None for found in pipe.execute()]
    return [
        NextDue(min((at for at in due if at is not None), default=None), lease)
        for *due, lease in zip(*[iter(firsts)] * 3, strict=True)
    ]


def workers(
    connection: Connection, names: KeyNames, queues: Sequence[QueueKey]
) -> list[list[WorkerRecord]]:
    """For each queue, its workers with the number of jobs that each holds."""
    with connection.translate_errors:
        pipe = connection.client.pipeline(transaction=False)
        for queue in queues:
            pipe.hgetall(f"{names.base(queue)}:workers")
            pipe.hgetall(f"{names.base(queue)}:lease_counts")
        answers = pipe.execute()
    return [
        sorted(
            (_worker(packed, int(holds.get(id, 0))) for id, packed in found.items()),
            key=lambda worker: worker.heartbeat.id,
        )
        for found, holds in zip(answers[::2], answers[1::2], strict=True)
    ]


def _worker(packed: bytes, holds: int) -> WorkerRecord:
    seen_at, expires_at = _TIMES.unpack_from(packed)
    beat = decode_heartbeat(packed[_TIMES.size :])
    return WorkerRecord(
        heartbeat=beat, last_heartbeat_at=seen_at, expires_at=expires_at, leases=holds
    )


# --- leased jobs, of which there may be very many: read in small parts, so that nobody waits ---

SCAN_COUNT = 500
"""Leases whose names are read in one call."""

_NUMBER = struct.Struct(">HI")


def leases(scripts: Scripts, queue: QueueKey, worker: str | None, limit: int) -> list[Record]:
    """Leased jobs that have lapsed, or those of one worker."""
    if worker is None:
        return [seen.record for seen in scripts.lapsed(queue, limit)]
    held: dict[str, FoundJob] = {}
    for members in _scan(scripts, queue):
        for seen in scripts.leased_by(queue, worker, limit, members):
            held[seen.record.id] = seen
        if len(held) >= limit:
            break
    return [seen.record for seen in sorted(held.values(), key=lambda one: one.number)][:limit]


def leased_by_age(
    scripts: Scripts,
    queue: QueueKey,
    after: int,
    newest_first: bool,
    size: int,
    max_bytes: int,
) -> Iterator[FoundJob]:
    """Leased jobs behind a number, by number; `size` of them are read in one call."""
    found = {member for members in _scan(scripts, queue) for member in members}
    numbered = sorted(((_number(member), member) for member in found), reverse=newest_first)
    ids = [
        member[_NUMBER.size :]
        for number, member in numbered
        if (number < after if newest_first else number > after)
    ]
    for seen, _ in read_jobs(scripts, queue, ids, size, max_bytes):
        # Jobs that have ended since are left out.
        if seen.record.state is State.PROCESSING:
            yield seen


def read_jobs(
    scripts: Scripts, queue: QueueKey, ids: Sequence[bytes], size: int, max_bytes: int
) -> Iterator[tuple[FoundJob, float]]:
    """The jobs of these ids that there are, and the server's time.

    In one call, `size` of them are read, up to the one with which they have `max_bytes`.
    """
    while ids:
        found = scripts.get(queue, ids[:size], max_bytes)
        yield from ((seen, found.now) for seen in found.jobs)
        last = found.jobs[-1].record.id.encode() if found.more else None
        ids = ids[size if last is None else ids.index(last) + 1 :]


def _scan(scripts: Scripts, queue: QueueKey) -> Iterator[list[bytes]]:
    """The members of the line of leased jobs, some at a time; one may come twice."""
    cursor, line = 0, f"{scripts.names.base(queue)}:processing"
    while True:
        with scripts.connection.translate_errors:
            cursor, found = scripts.connection.client.zscan(line, cursor, count=SCAN_COUNT)
        if found:
            yield [member for member, _ in found]
        if not cursor:
            return


def _number(member: bytes) -> int:
    """The age of a job, which `lua/lib/job.lua` puts before its id."""
    high, low = _NUMBER.unpack_from(member)
    return int(high << 32 | low)
