"""Looking at leased jobs, of which there may be very many: in small parts, so that nobody waits."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from ackline.job import QueueKey, Record, State
from ackline.stores.redis.packing import Seen
from ackline.stores.redis.script_calls import ScriptCalls

SCANNED = 500
"""Leases whose names are read in one call."""

_NUMBER = struct.Struct(">HI")


def leases(scripts: ScriptCalls, queue: QueueKey, worker: str | None, limit: int) -> list[Record]:
    """Leased jobs that have lapsed, or those of one worker."""
    if worker is None:
        return [seen.record for seen in scripts.lapsed(queue, limit)]
    held: dict[str, Seen] = {}
    for members in _scan(scripts, queue):
        for seen in scripts.leased_by(queue, worker, limit, members):
            held[seen.record.id] = seen
        if len(held) >= limit:
            break
    return [seen.record for seen in sorted(held.values(), key=lambda one: one.number)][:limit]


def leased_by_age(
    scripts: ScriptCalls,
    queue: QueueKey,
    after: int,
    newest_first: bool,
    size: int,
    max_bytes: int,
) -> Iterator[Seen]:
    """Leased jobs behind a number, by number; `size` of them are read in one call."""
    found = {member for members in _scan(scripts, queue) for member in members}
    numbered = sorted(((_number(member), member) for member in found), reverse=newest_first)
    ids = [
        member[_NUMBER.size :]
        for number, member in numbered
        if (number < after if newest_first else number > after)
    ]
    for seen, _ in look_up(scripts, queue, ids, size, max_bytes):
        # Jobs that have ended since are left out.
        if seen.record.state is State.PROCESSING:
            yield seen


def look_up(
    scripts: ScriptCalls, queue: QueueKey, ids: Sequence[bytes], size: int, max_bytes: int
) -> Iterator[tuple[Seen, float]]:
    """The jobs of these ids that there are, and the server's time.

    In one call, `size` of them are read, up to the one with which they have `max_bytes`.
    """
    while ids:
        found = scripts.get(queue, ids[:size], max_bytes)
        yield from ((seen, found.now) for seen in found.jobs)
        last = found.jobs[-1].record.id.encode() if found.more else None
        ids = ids[size if last is None else ids.index(last) + 1 :]


def _scan(scripts: ScriptCalls, queue: QueueKey) -> Iterator[list[bytes]]:
    """The members of the line of leased jobs, some at a time; one may come twice."""
    cursor, line = 0, f"{scripts.names.base(queue)}:processing"
    while True:
        with scripts.connection.translated:
            cursor, found = scripts.connection.client.zscan(line, cursor, count=SCANNED)
        if found:
            yield [member for member, _ in found]
        if not cursor:
            return


def _number(member: bytes) -> int:
    """The age of a job, which `scripts/lib/job.lua` puts before its id."""
    high, low = _NUMBER.unpack_from(member)
    return int(high << 32 | low)
