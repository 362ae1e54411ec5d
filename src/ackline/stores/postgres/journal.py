"""Read the journal, and trim its oldest batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ackline.core.events import Events, JournalBatch, make_cursor, read_cursor
from ackline.core.job import QueueKey
from ackline.stores.contract import require_not_trimmed
from ackline.stores.postgres.io.pipeline import Ints, Row
from ackline.stores.postgres.io.transaction import EVENTS_INDEX, Transaction
from ackline.stores.postgres.queue_cache import CachedQueue, QueueCache, decode_queue
from ackline.stores.shared.journal_batches import FIRST_READ_SIZE, next_read_size, unpack_entries
from ackline.stores.shared.retention import plan_trim

NUM_BITS, MOMENT_BITS = 40, 63

TRIM_LIMIT = 1000
"""The most batches that one transaction trims."""

TENANT_READ_FACTOR = 10
"""How many batches of all tenants are read for each one that is wanted of one tenant."""

MAX_BATCH_NUMBER = (1 << 31 + MOMENT_BITS + NUM_BITS) - 1
"""The highest number of a batch; a cursor may claim a higher one."""

_NUMS, _MOMENTS = (1 << NUM_BITS) - 1, (1 << MOMENT_BITS) - 1


def number_of(era: int, moment: int, num: int) -> int:
    """The position of a batch in the journal as one number."""
    return (era << MOMENT_BITS | moment) << NUM_BITS | num


def _batch(number: int) -> dict[str, int]:
    number = min(number, MAX_BATCH_NUMBER)
    moment = number >> NUM_BITS
    return {"era": moment >> MOMENT_BITS, "moment": moment & _MOMENTS, "num": number & _NUMS}


def journal_end(tx: Transaction) -> str:
    """The cursor after the last event that can be read."""
    [(era, oldest)] = tx.rows("journal_end")
    return make_cursor(number_of(era, oldest + 1, 0), 0)


def events(
    tx: Transaction,
    queues: QueueCache,
    queue: QueueKey | None,
    after: str | None,
    limit: int,
    tenant: str | None,
) -> Events:
    """The events after a cursor: of a queue, of a tenant, or all."""
    start = read_cursor(after)
    left = start[1] + limit
    if queue is not None:
        cached = queues.find(tx, queue)
        if cached is None:
            return Events([])
        require_not_trimmed(queue, after, last_trimmed(tx, queue=cached.num))
        rows = _batches(tx, "read_queue_events", {"queue": cached.num}, start[0], left)
    elif tenant is not None:
        require_not_trimmed(None, after, last_trimmed(tx, tenant=tenant.encode()))
        rows = _batches_of_tenant(tx, {"tenant": tenant.encode()}, start[0], left)
    else:
        require_not_trimmed(None, after, last_trimmed(tx))
        rows = _batches(tx, "read_all_events", {}, start[0], left)
    batches = (
        JournalBatch(number, row[4], queue or decode_queue(*row[7:]), unpack_entries(row[6]))
        for number, row in rows
    )
    return Events.up_to_limit(batches, start, limit)


def _batches_of_tenant(
    tx: Transaction, values: dict[str, Any], start: int, left: int
) -> Iterator[tuple[int, Row]]:
    """The batches of one tenant.

    As long as many of the next batches are the tenant's own, they are filtered from all batches.
    Otherwise they are read queue by queue, which costs the same however much other tenants write.
    """
    read_size = FIRST_READ_SIZE
    while True:
        scan_size = read_size * TENANT_READ_FACTOR
        found = tx.rows("find_tenant_events", values | _batch(start) | {"limit": scan_size})
        rows = [row[4:] for row in found if row[4] is not None]
        yield from ((number_of(*row[:3]), row) for row in rows)
        if not found or found[0][0] < scan_size:
            return
        start = number_of(*found[0][1:4]) + 1
        if len(rows) < read_size:
            break
        sizes = [row[5] for row in rows]
        left -= sum(sizes)
        read_size = next_read_size(max(1, left), sizes)
    yield from _batches(tx, "read_tenant_events", values, start, max(1, left))


def _batches(
    tx: Transaction, query: str, values: dict[str, Any], start: int, left: int
) -> Iterator[tuple[int, Row]]:
    """Batches from `start` on, about as many as have `left` entries."""
    read_size = FIRST_READ_SIZE
    while True:
        rows = tx.rows(query, values | _batch(start) | {"limit": read_size})
        for row in rows:
            start = number_of(*row[:3])
            yield start, row
            start += 1
        if len(rows) < read_size:
            return
        sizes = [row[5] for row in rows]
        left -= sum(sizes)
        read_size = next_read_size(left, sizes)


def last_trimmed(
    tx: Transaction, *, queue: int | None = None, tenant: bytes | None = None
) -> tuple[int, int]:
    """The last trimmed batch of a queue, and how many entries it had.

    Without a queue: of all queues of a tenant, or of all queues.
    """
    for era, moment, num, size in tx.rows("last_trimmed", {"queue": queue, "tenant": tenant}):
        return number_of(era, moment, num), size
    return (0, 0)


def trim(
    tx: Transaction, cached: CachedQueue, max_events: int, keep_from: str | None
) -> tuple[int, bool]:
    """Delete batches that are too old or too many.

    Returns how many of their events a registered reader had not read yet, and whether there may be
    more batches to trim.
    """
    counts = tx.rows("counts", {"queues": Ints([cached.num])})
    rows = tx.rows("oldest_batches", {"queue": cached.num, "limit": TRIM_LIMIT})
    batches = ((number_of(*row[:3]), *row[3:]) for row in rows)
    events = counts[0][1 + EVENTS_INDEX] if counts else 0
    plan = plan_trim(batches, events, cached.settings, max_events, keep_from, tx.now)
    if plan.batches:
        number, size = plan.last
        tx.send("trim_journal", _batch(number) | {"queue": cached.num, "size": size})
    return plan.unread, plan.batches == TRIM_LIMIT
