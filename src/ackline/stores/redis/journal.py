"""The journal: a stream for each queue, with one entry for each batch."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, repeat
from typing import Any

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import (
    Act,
    Entry,
    Events,
    JournalBatch,
    LazyEntries,
    RecoveredBy,
    make_cursor,
    read_cursor,
)
from ackline.core.job import QueueKey
from ackline.stores.contract import require_not_trimmed
from ackline.stores.redis.io.connection import Connection
from ackline.stores.redis.key_names import MAX_QUEUE_MARK, QUEUE_MARK_BITS, KeyNames
from ackline.stores.shared.journal_batches import (
    FIRST_READ_SIZE,
    LAZY_FROM,
    UniformRun,
    next_read_size,
    split_rows,
)
from ackline.stores.shared.record_encoding import STATES_BY_CODE

MAX_CLOCK_SKEW = 1.0
"""Seconds by which the clocks of a cluster's nodes may differ."""

MAX_TIME = 2**64 - 1
"""The highest time that an entry of a stream can have, whatever a cursor says."""

JOURNALS_PER_CALL = 500
"""Journals whose first batches are read in one round trip."""

StreamRead = tuple[list[tuple[bytes, dict[bytes, bytes]]], bytes | None]
"""Entries of a stream, and what was last trimmed from it."""


def read_events(
    connection: Connection, names: KeyNames, queue: QueueKey, after: str | None, limit: int
) -> Events:
    """The journal of one queue after a cursor."""
    return _limit_events(_follow(connection, names, queue, after, limit, None, None), after, limit)


def read_all_events(
    connection: Connection,
    names: KeyNames,
    after: str | None,
    limit: int,
    tenant: str | None = None,
) -> Events:
    """The merged journals of all queues, or of all queues of a tenant, after a cursor."""
    if limit <= 0:
        return Events([])
    # Before anything else: batches written from now on have higher numbers, so none is skipped.
    end = last_batch(connection, names)
    queues = [key for key in all_queues(connection, names) if tenant in (None, key.tenant)]
    reads = _first_reads(connection, names, queues, after, end)
    journals = [
        _follow(connection, names, queue, after, limit, end, read)
        for queue, read in zip(queues, reads, strict=True)
    ]
    try:
        return _limit_events(heapq.merge(*journals, key=lambda batch: batch.number), after, limit)
    except EventsDropped:
        require_not_trimmed(None, after, last_trimmed(connection, names, queues))
        raise


def _first_reads(
    connection: Connection,
    names: KeyNames,
    queues: Sequence[QueueKey],
    after: str | None,
    end: int,
) -> Iterator[StreamRead]:
    """The first batches of each journal after a cursor; most journals have none."""
    batch = read_cursor(after)[0]
    for start in range(0, len(queues), JOURNALS_PER_CALL):
        with connection.translate_errors:
            pipe = connection.client.pipeline(transaction=False)
            for queue in queues[start : start + JOURNALS_PER_CALL]:
                _send_read(pipe, names, queue, batch, end, FIRST_READ_SIZE)
            found = pipe.execute()
        yield from zip(found[::2], found[1::2], strict=True)


def _send_read(
    pipe: Any, names: KeyNames, queue: QueueKey, batch: int, end: int | None, read_size: int
) -> None:
    base, last = names.base(queue), "+" if end is None else _name_of(names, end)
    # In this order: what is trimmed in between counts as trimmed, too.
    pipe.xrange(f"{base}:journal", _name_of(names, batch), last, read_size)
    pipe.hget(f"{base}:queue", "trimmed")


def _limit_events(batches: Iterator[JournalBatch], after: str | None, limit: int) -> Events:
    return Events.up_to_limit(_until_trimmed(batches), read_cursor(after), limit)


def _until_trimmed(batches: Iterator[JournalBatch]) -> Iterator[JournalBatch]:
    any_read = False
    try:
        for batch in batches:
            yield batch
            any_read = True
    except EventsDropped:
        # Trimmed while this reads: the batches before are complete, and the next read will raise.
        if not any_read:
            raise


def last_trimmed(
    connection: Connection, names: KeyNames, queues: Sequence[QueueKey]
) -> tuple[int, int]:
    """The last batch that was trimmed of any of these queues, and how many events it had."""
    with connection.translate_errors:
        pipe = connection.client.pipeline(transaction=False)
        for queue in queues:
            pipe.hget(f"{names.base(queue)}:queue", "trimmed")
        return max((_trimmed(names, text) for text in pipe.execute()), default=(0, 0))


def first_needed(
    names: KeyNames, queue: QueueKey, needed_after: str | None
) -> tuple[int | str, int]:
    """The time of the first batch with events after a cursor, and how many it has before them."""
    if needed_after is None:
        return "", 0
    batch, used = read_cursor(needed_after)
    if not names.clustered:
        return batch, used
    time, mark, own = batch >> QUEUE_MARK_BITS, batch & MAX_QUEUE_MARK, names.queue_mark(queue)
    if mark == own:
        return time, used
    return (time, 0) if mark < own else (time + 1, 0)


def all_queues(connection: Connection, names: KeyNames) -> list[QueueKey]:
    """Every queue, of every tenant."""
    with connection.translate_errors:
        entries = connection.client.smembers(names.registry)
    return sorted(names.queue_of(entry.decode()) for entry in entries)


def last_batch(connection: Connection, names: KeyNames, now: float | None = None) -> int:
    """The number up to which all batches have been written.

    A cluster has no shared counter: there it is computed from the time, by default the servers'.
    """
    if not names.clustered:
        with connection.translate_errors:
            return int(connection.client.hget(f"{names.prefix}:counters", "batch") or 0)
    now = earliest_time(connection) if now is None else now
    return int((now - MAX_CLOCK_SKEW) * 1e6) << QUEUE_MARK_BITS


def earliest_time(connection: Connection) -> float:
    """The time of the server; in a cluster, of the node whose clock is furthest behind."""
    with connection.translate_errors:
        if not connection.clustered:
            return _seconds(connection.client.time())
        times = connection.client.time(target_nodes="primaries")
        return min(map(_seconds, times.values() if isinstance(times, dict) else [times]))


def _seconds(time: tuple[int, int]) -> float:
    return time[0] + time[1] / 1e6


def _follow(
    connection: Connection,
    names: KeyNames,
    queue: QueueKey,
    after: str | None,
    limit: int,
    end: int | None,
    read: StreamRead | None,
) -> Iterator[JournalBatch]:
    """Batches that have events after a cursor, about as many as the limit needs.

    `read` is the first read, if that was already done.
    """
    start = read_cursor(after)
    batch, remaining = start[0], start[1] + limit
    read_size = FIRST_READ_SIZE
    while True:
        if read is None:
            with connection.translate_errors:
                pipe = connection.client.pipeline(transaction=False)
                _send_read(pipe, names, queue, batch, end, read_size)
                read = pipe.execute()
        (found, trimmed), read = read, None
        require_not_trimmed(queue, after, _trimmed(names, trimmed))
        sizes = [int(fields[b"n"]) for _, fields in found]
        for (name, fields), size in zip(found, sizes, strict=True):
            number = _batch_of(names, name)
            if (number, size) > start:
                at, entries = read_batch(fields, size)
                yield JournalBatch(number, at, queue, entries)
        if len(found) < read_size:
            return
        remaining -= sum(sizes)
        read_size = next_read_size(remaining, sizes)
        batch = number + 1
        after = make_cursor(batch, 0)


def _trimmed(names: KeyNames, trimmed: bytes | None) -> tuple[int, int]:
    name, _, size = (trimmed or b"0").partition(b" ")
    return _batch_of(names, name), int(size or 0)


def _batch_of(names: KeyNames, name: bytes) -> int:
    """The number of a batch: its time, followed in a cluster by the mark of its queue."""
    time, _, mark = name.partition(b"-")
    return int(time) << QUEUE_MARK_BITS | int(mark or 0) if names.clustered else int(time)


def _name_of(names: KeyNames, batch: int) -> str:
    if names.clustered:
        return f"{min(batch >> QUEUE_MARK_BITS, MAX_TIME)}-{batch & MAX_QUEUE_MARK}"
    return f"{min(batch, MAX_TIME)}-0"


# --- a batch: runs of entries that differ only in their job ---

_ACTS = {act.value: act for act in Act}
_STATES = (*STATES_BY_CODE, None)
"""By their codes; the last one is None, because code -1 is no state."""

_PRIORITIES = {ord("-"): None} | {ord(str(priority)): priority for priority in range(10)}

Fields = Mapping[bytes, bytes]
"""The fields of a stream entry: `e` has the time and the runs; for `p` and `c` see below."""


class _Details(msgspec.Struct, frozen=True, gc=False):
    """What only some entries have."""

    moved: tuple[str | None, str | None] = (None, None)
    """The source and the target queue of a move."""
    recovered_by: RecoveredBy | None = None


class _EntryRun(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Neighbouring entries; kinds and attempts are one value for all, or a list."""

    act: str
    source: int
    to: int
    token: int
    worker: str
    note: str
    by: str
    kinds: str | list[str]
    attempts: int | list[int]
    ids: msgspec.Raw
    details: _Details = _Details()

    def entries(
        self, ids: list[str], priorities: Iterator[int | None], callbacks: Iterator[str | None]
    ) -> Iterator[Entry]:
        """An entry for each id, with the next priority and the next callback of the batch."""
        return map(
            Entry,
            repeat(_ACTS[self.act]),
            ids,
            _of_each(self.kinds),
            repeat(_STATES[self.source]),
            repeat(_STATES[self.to]),
            _of_each(self.attempts),
            repeat(self.token),
            repeat(self.worker),
            repeat(self.note),
            repeat(self.by),
            priorities,
            callbacks,
            repeat(self.details.moved[0]),
            repeat(self.details.moved[1]),
            repeat(self.details.recovered_by),
        )


_decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[float | _EntryRun]).decode
_decode_callbacks = msgspec.msgpack.Decoder(list[Any]).decode
_decode_ids = msgspec.msgpack.Decoder(list[str]).decode
_decode_id = msgspec.msgpack.Decoder(str).decode


def read_batch(fields: Fields, size: int) -> tuple[float, Sequence[Entry]]:
    """When a batch was written, and its entries; those of a large batch are decoded lazily."""
    at, *runs = _decode(fields[b"e"])
    packed = _PackedBatch(runs, fields)
    return at, LazyEntries(packed, range(size)) if size >= LAZY_FROM else packed.unpack()


class _PackedBatch(msgspec.Struct, frozen=True, gc=False):
    runs: list[_EntryRun]
    fields: Fields

    def unpack(self) -> list[Entry]:
        priorities, callbacks = _priorities(self.fields), _callbacks(self.fields)
        runs = (run.entries(_decode_ids(run.ids), priorities, callbacks) for run in self.runs)
        return [*chain.from_iterable(runs)]

    def uniform_runs(self) -> list[UniformRun]:
        if b"c" in self.fields:
            return []
        uniform: list[UniformRun] = []
        digits = self.fields.get(b"p", b"")
        for run in self.runs:
            found = _uniform_run(run, digits)
            if found is None:
                return []
            uniform.append(found)
            digits = digits[len(found) :]
        return uniform


def _uniform_run(run: _EntryRun, digits: bytes) -> UniformRun | None:
    split = split_rows(bytes(run.ids), _decode_id)
    if split is None or isinstance(run.kinds, list) or isinstance(run.attempts, list):
        return None
    id, rows, width = split
    priorities = digits[: len(rows) // width].ljust(len(rows) // width, b"-")
    if priorities.count(priorities[:1]) < len(priorities):
        return None
    [entry] = run.entries([id], map(_PRIORITIES.get, priorities), repeat(None))
    return UniformRun(entry, rows[:width], rows, width, slice(width - len(id.encode()), width))


def _of_each(values: Any) -> Iterator[Any]:
    return iter(values) if isinstance(values, list) else repeat(values)


def _priorities(fields: Fields) -> Iterator[int | None]:
    """The field `p` has a digit for each entry; the last ones, or all, may be missing."""
    return chain(map(_PRIORITIES.get, fields.get(b"p", b"")), repeat(None))


def _callbacks(fields: Fields) -> Iterator[str | None]:
    """The field `c` has the entry's number and the URL for each of the few jobs with a callback."""
    if b"c" not in fields:
        return repeat(None)
    flat = _decode_callbacks(fields[b"c"])
    return map(dict(zip(flat[::2], flat[1::2], strict=True)).get, count(1))
