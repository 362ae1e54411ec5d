"""The journal: a stream for each queue, with one entry for each batch."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from ackline.errors import EventsDropped
from ackline.events import Batch, Events, make_cursor, read_cursor
from ackline.job import QueueKey
from ackline.stores.base import require_kept
from ackline.stores.chunks import FIRST_CHUNK, next_chunk
from ackline.stores.redis.batches import read_batch
from ackline.stores.redis.connection import Connection
from ackline.stores.redis.names import LARGEST_MARK, MARK_BITS, Names

CLOCKS_APART = 1.0
"""Seconds by which the clocks of a cluster's nodes may differ."""

LAST_TIME = 2**64 - 1
"""No entry of a stream has a higher time, whatever a cursor says."""

JOURNALS_AT_ONCE = 500
"""How many journals are asked for their first batches in one round trip."""

Answer = tuple[list[tuple[bytes, dict[bytes, bytes]]], bytes | None]
"""Entries of a stream, and what was last trimmed of it."""


def read_events(
    connection: Connection, names: Names, queue: QueueKey, after: str | None, limit: int
) -> Events:
    """The journal of one queue after a cursor."""
    return _take(_follow(connection, names, queue, after, limit, None, None), after, limit)


def read_all_events(
    connection: Connection, names: Names, after: str | None, limit: int, tenant: str | None = None
) -> Events:
    """The journals of all queues, or of all of one tenant, after a cursor, as one."""
    if limit <= 0:
        return Events([])
    # First of all: batches written from now on have higher numbers, so no late one is skipped.
    end = last_batch(connection, names)
    queues = [key for key in all_queues(connection, names) if tenant in (None, key.tenant)]
    answers = _first_answers(connection, names, queues, after, end)
    journals = [
        _follow(connection, names, queue, after, limit, end, answer)
        for queue, answer in zip(queues, answers, strict=True)
    ]
    try:
        return _take(heapq.merge(*journals, key=lambda batch: batch.number), after, limit)
    except EventsDropped:
        require_kept(None, after, last_dropped(connection, names, queues))
        raise


def _first_answers(
    connection: Connection,
    names: Names,
    queues: Sequence[QueueKey],
    after: str | None,
    end: int,
) -> Iterator[Answer]:
    """The first batches of each journal after a cursor: most journals have none."""
    batch = read_cursor(after)[0]
    for start in range(0, len(queues), JOURNALS_AT_ONCE):
        with connection.translated:
            pipe = connection.client.pipeline(transaction=False)
            for queue in queues[start : start + JOURNALS_AT_ONCE]:
                _ask(pipe, names, queue, batch, end, FIRST_CHUNK)
            found = pipe.execute()
        yield from zip(found[::2], found[1::2], strict=True)


def _ask(pipe: Any, names: Names, queue: QueueKey, batch: int, end: int | None, chunk: int) -> None:
    base, last = names.base(queue), "+" if end is None else _name_of(names, end)
    # In this order: what is dropped in between counts as dropped, too.
    pipe.xrange(f"{base}:journal", _name_of(names, batch), last, chunk)
    pipe.hget(f"{base}:queue", "trimmed")


def _take(batches: Iterator[Batch], after: str | None, limit: int) -> Events:
    return Events.take(_until_dropped(batches), read_cursor(after), limit)


def _until_dropped(batches: Iterator[Batch]) -> Iterator[Batch]:
    any_read = False
    try:
        for batch in batches:
            yield batch
            any_read = True
    except EventsDropped:
        # Dropped while we read: the batches before are complete, and the next read will raise.
        if not any_read:
            raise


def last_dropped(
    connection: Connection, names: Names, queues: Sequence[QueueKey]
) -> tuple[int, int]:
    """The last batch that was dropped of any of these queues, and how many events it had."""
    with connection.translated:
        pipe = connection.client.pipeline(transaction=False)
        for queue in queues:
            pipe.hget(f"{names.base(queue)}:queue", "trimmed")
        return max((_dropped(names, text) for text in pipe.execute()), default=(0, 0))


def first_needed(names: Names, queue: QueueKey, keep_from: str | None) -> tuple[int | str, int]:
    """The time of the first batch with events after a cursor, and how many it has before them."""
    if keep_from is None:
        return "", 0
    batch, used = read_cursor(keep_from)
    if not names.clustered:
        return batch, used
    time, mark, own = batch >> MARK_BITS, batch & LARGEST_MARK, names.mark(queue)
    if mark == own:
        return time, used
    return (time, 0) if mark < own else (time + 1, 0)


def all_queues(connection: Connection, names: Names) -> list[QueueKey]:
    """Every queue, of every tenant."""
    with connection.translated:
        entries = connection.client.smembers(names.registry)
    return sorted(names.queue_of(entry.decode()) for entry in entries)


def last_batch(connection: Connection, names: Names, now: float | None = None) -> int:
    """The number up to which all batches have been written already.

    A cluster has no shared counter: there it follows from the time, by default the servers'.
    """
    if not names.clustered:
        with connection.translated:
            return int(connection.client.hget(f"{names.prefix}:counters", "batch") or 0)
    now = earliest_time(connection) if now is None else now
    return int((now - CLOCKS_APART) * 1e6) << MARK_BITS


def earliest_time(connection: Connection) -> float:
    """The time of the server; in a cluster, of the node whose clock is furthest behind."""
    with connection.translated:
        if not connection.clustered:
            return _seconds(connection.client.time())
        times = connection.client.time(target_nodes="primaries")
        return min(map(_seconds, times.values() if isinstance(times, dict) else [times]))


def _seconds(time: tuple[int, int]) -> float:
    return time[0] + time[1] / 1e6


def _follow(
    connection: Connection,
    names: Names,
    queue: QueueKey,
    after: str | None,
    limit: int,
    end: int | None,
    answer: Answer | None,
) -> Iterator[Batch]:
    """Batches that have events after a cursor, about as many as the limit needs.

    It begins with the answer to the first question, if that was asked already.
    """
    start = read_cursor(after)
    batch, left = start[0], start[1] + limit
    chunk = FIRST_CHUNK
    while True:
        if answer is None:
            with connection.translated:
                pipe = connection.client.pipeline(transaction=False)
                _ask(pipe, names, queue, batch, end, chunk)
                answer = pipe.execute()
        (read, trimmed), answer = answer, None
        require_kept(queue, after, _dropped(names, trimmed))
        sizes = [int(fields[b"n"]) for _, fields in read]
        for (name, fields), size in zip(read, sizes, strict=True):
            number = _batch_of(names, name)
            if (number, size) > start:
                at, entries = read_batch(fields, size)
                yield Batch(number, at, queue, entries)
        if len(read) < chunk:
            return
        left -= sum(sizes)
        chunk = next_chunk(left, sizes)
        batch = number + 1
        after = make_cursor(batch, 0)


def _dropped(names: Names, trimmed: bytes | None) -> tuple[int, int]:
    name, _, size = (trimmed or b"0").partition(b" ")
    return _batch_of(names, name), int(size or 0)


def _batch_of(names: Names, name: bytes) -> int:
    """The number of a batch: its time, and in a cluster the mark of its queue behind that."""
    time, _, mark = name.partition(b"-")
    return int(time) << MARK_BITS | int(mark or 0) if names.clustered else int(time)


def _name_of(names: Names, batch: int) -> str:
    if names.clustered:
        return f"{min(batch >> MARK_BITS, LAST_TIME)}-{batch & LARGEST_MARK}"
    return f"{min(batch, LAST_TIME)}-0"
