"""The journal: a stream for each queue, with one entry for each batch."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import msgspec

from ackline.events import Act, Event, make_cursor, read_cursor
from ackline.job import QueueKey, State
from ackline.stores.redis.connection import Connection
from ackline.stores.redis.errors import translated
from ackline.stores.redis.names import LARGEST_MARK, MARK_BITS, Names
from ackline.stores.redis.packing import STATES

CHUNK = 100
"""How many batches are read at once."""

CLOCKS_APART = 1.0
"""Seconds by which the clocks of a cluster's nodes may differ."""

_HEAD = 8
_EACH = 3

_decode = msgspec.msgpack.Decoder(list[Any]).decode


def read_events(
    connection: Connection, names: Names, queue: QueueKey, after: str | None, limit: int
) -> list[Event]:
    """The journal of one queue behind a cursor."""
    found: list[Event] = []
    for event in _follow(connection, names, queue, after, None):
        if len(found) >= limit:
            break
        found.append(event)
    return found


def read_all_events(
    connection: Connection, names: Names, after: str | None, limit: int
) -> list[Event]:
    """The journals of all queues behind a cursor, as one."""
    if limit <= 0:
        return []
    # First this: what is written from now on has a higher number, so no late one is skipped.
    end = last_batch(connection, names)
    journals = [
        _follow(connection, names, queue, after, end) for queue in all_queues(connection, names)
    ]
    merged = heapq.merge(*journals, key=lambda event: read_cursor(event.cursor))
    return [event for _, event in zip(range(limit), merged, strict=False)]


def all_queues(connection: Connection, names: Names) -> list[QueueKey]:
    """Every queue, of every tenant."""
    with translated(connection.where):
        entries = connection.client.smembers(names.registry)
    return sorted(names.queue_of(entry.decode()) for entry in entries)


def last_batch(connection: Connection, names: Names) -> int:
    """The number below or at which all batches have been written already."""
    if not names.clustered:
        with translated(connection.where):
            return int(connection.client.hget(f"{names.prefix}:counters", "batch") or 0)
    return int((earliest_time(connection) - CLOCKS_APART) * 1e6) << MARK_BITS


def earliest_time(connection: Connection) -> float:
    """The time of the server; of a cluster's, that of the node whose clock is behind most."""
    with translated(connection.where):
        if not connection.clustered:
            return _seconds(connection.client.time())
        times = connection.client.time(target_nodes="primaries")
        return min(map(_seconds, times.values() if isinstance(times, dict) else [times]))


def _seconds(time: tuple[int, int]) -> float:
    return time[0] + time[1] / 1e6


def _follow(
    connection: Connection, names: Names, queue: QueueKey, after: str | None, end: int | None
) -> Iterator[Event]:
    batch, used = read_cursor(after)
    stream, last = f"{names.base(queue)}:journal", "+" if end is None else _name_of(names, end)
    while True:
        with translated(connection.where):
            entries = connection.client.xrange(stream, _name_of(names, batch), last, CHUNK)
        for name, fields in entries:
            number = _batch_of(names, name)
            skip = used if number == batch else 0
            yield from _unpack(number, queue, fields[b"e"], skip)
        if len(entries) < CHUNK:
            return
        batch, used = number + 1, 0


def _batch_of(names: Names, name: bytes) -> int:
    """The number of a batch: its time, and in a cluster the mark of its queue behind that."""
    time, _, mark = name.partition(b"-")
    return int(time) << MARK_BITS | int(mark) if names.clustered else int(time)


def _name_of(names: Names, batch: int) -> str:
    if names.clustered:
        return f"{batch >> MARK_BITS}-{batch & LARGEST_MARK}"
    return f"{batch}-0"


def _unpack(batch: int, queue: QueueKey, packed: bytes, skip: int) -> Iterator[Event]:
    flat = _decode(packed)
    at, position, index = float(flat[0]), 1, 0
    while position < len(flat):
        act, source, to, token, worker, note, by, count = flat[position : position + _HEAD]
        position += _HEAD
        for start in range(position, position + _EACH * count, _EACH):
            index += 1
            if index > skip:
                id, kind, attempt = flat[start : start + _EACH]
                yield Event(
                    make_cursor(batch, index),
                    at,
                    queue,
                    Act(act),
                    id,
                    kind,
                    _state(source),
                    _state(to),
                    attempt,
                    token,
                    worker,
                    note,
                    by,
                )
        position += _EACH * count


def _state(code: int) -> State | None:
    return None if code < 0 else STATES[code]
