"""Summaries of sweeps that expired leases, each once, however the journal is paged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from ackline.core.events import Act, Event, RecoveredBy, read_cursor
from ackline.core.job import QueueKey, State
from ackline.stores.contract import Store

PAGE = 1000

TRIGGERS: dict[RecoveredBy | None, str] = {
    RecoveredBy.SWEEP: "scheduler",
    RecoveredBy.HEARTBEAT: "heartbeat",
    RecoveredBy.CLAIM: "claim",
    RecoveredBy.DISCONNECT: "disconnect",
    RecoveredBy.MONITOR: "supervisor",
    RecoveredBy.MANUAL: "operator",
    None: "operator",
}
"""The value of `triggered_by` for what recovered the jobs."""

Visible = Callable[[Sequence[Event]], list[Event]]


class SweepDocument(msgspec.Struct):
    """The result of one sweep: how many jobs it requeued, or moved to the DLQ."""

    type: str
    timestamp: int
    """Milliseconds since 1970."""
    payload: dict[str, Any]


def sweeps_ending_in(
    store: Store, events: Sequence[Event], visible: Visible
) -> dict[str, list[SweepDocument]]:
    """Summaries of sweeps that end among these events, by the cursor of their last event.

    A sweep that started before them, or continues after them, is read as a whole.
    """
    found: dict[str, list[SweepDocument]] = {}
    for entries in _batches(events):
        if not any(event.act is Act.EXPIRE for event in entries):
            continue
        partial = entries[0] is events[0] or entries[-1] is events[-1]
        batch = visible(_whole_batch(store, entries[0])) if partial else entries
        if batch[-1].cursor == entries[-1].cursor:  # else it is reported where it ends
            found[batch[-1].cursor] = list(_sweep_documents(batch))
    return found


def _batches(events: Sequence[Event]) -> Iterator[list[Event]]:
    """The events, grouped by the transaction that wrote them."""
    for _, batch in groupby(events, _batch_of):
        yield list(batch)


def _batch_of(event: Event) -> tuple[QueueKey, int]:
    return event.queue, read_cursor(event.cursor)[0]


def _whole_batch(store: Store, member: Event) -> list[Event]:
    """All events of the same transaction. Blocks."""
    batch: list[Event] = []
    cursor = f"{read_cursor(member.cursor)[0]}.0"
    while page := store.events(member.queue, cursor, PAGE):
        inside = [event for event in page if _batch_of(event) == _batch_of(member)]
        batch += inside
        if len(inside) < len(page):
            break
        cursor = page[-1].cursor
    return batch


def _sweep_documents(entries: Sequence[Event]) -> Iterator[SweepDocument]:
    expiries = [event for event in entries if event.act is Act.EXPIRE]
    failed = sum(event.to is State.FAILED for event in expiries)
    timestamp = round(expiries[-1].at * 1000)
    requeued = {
        "count": len(expiries) - failed,
        "dlq_count": failed,
        "triggered_by": TRIGGERS[expiries[-1].recovered_by],
    }
    yield SweepDocument("requeue", timestamp, requeued)
    if failed:
        yield SweepDocument("move_to_dlq", timestamp, {"count": failed})
