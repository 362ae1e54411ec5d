"""Events that were dropped from a journal before they were read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import read_cursor
from ackline.core.job import QueueKey
from ackline.spark.journal.journals import JOURNAL_START
from ackline.stores.contract import Store

MAX_LISTED = 20
"""Gaps of one queue that are listed one by one: a stream that skips may find ever more."""


class Gap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one queue that were dropped before they were read."""

    queue: str
    after: str
    until: str
    retained_from: float | None = None
    """When the first event that is kept after them happened; None if there was none yet."""
    skipped_at: float | None = None
    """When a stream skipped them; None if none did."""
    count: int = 1
    """How many gaps this stands for: if there are many, the oldest are merged into one."""


def find_gap(store: Store, key: QueueKey, after: str = JOURNAL_START) -> Gap | None:
    """What a queue's journal has dropped after a cursor; None if it is complete from there."""
    try:
        store.events(key, after, 1)
    except EventsDropped as error:
        kept = store.events(key, None, 1)
        first_at = kept[0].at if kept else None
        return Gap(queue=key.name, after=after, until=error.cursor, retained_from=first_at)
    return None


def compact_gaps(gaps: list[Gap]) -> list[Gap]:
    """The same gaps, in order; if a queue has many, its oldest are merged into one."""
    kept = []
    for queue in dict.fromkeys(gap.queue for gap in gaps):
        own = [gap for gap in gaps if gap.queue == queue]
        old, last = own[:-MAX_LISTED], own[-MAX_LISTED:]
        kept += [_merged(old), *last] if old else last
    return sorted(kept, key=lambda gap: gap.skipped_at or 0.0)


def _merged(gaps: list[Gap]) -> Gap:
    count = sum(gap.count for gap in gaps)
    return msgspec.structs.replace(gaps[-1], after=gaps[0].after, count=count)


def gap_ends(gaps: Iterable[Gap]) -> dict[str, str]:
    """Where the last gap of each queue ends: jobs cannot be followed across a gap."""
    ends: dict[str, str] = {}
    for gap in gaps:
        ends[gap.queue] = max(gap.until, ends.get(gap.queue, gap.until), key=read_cursor)
    return ends


def new_gaps(gaps: list[Gap], known: list[Gap]) -> list[Gap]:
    """The gaps that end after all known gaps of their queue."""
    ends = {gap.queue: gap.until for gap in known}
    return [
        gap
        for gap in gaps
        if read_cursor(gap.until) > read_cursor(ends.get(gap.queue, JOURNAL_START))
    ]
