"""Events that nobody can read any more, because a journal has dropped them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ackline.errors import EventsDropped
from ackline.events import read_cursor
from ackline.job import QueueKey
from ackline.spark.events.journal import NOTHING_DROPPED
from ackline.stores.base import Store

MOST_LISTED = 20
"""Gaps of one queue that are listed one by one: a stream that always skips has ever more."""


class Gap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one queue that were dropped before they were read."""

    queue: str
    after: str
    until: str
    kept_from: float | None = None
    """When the first event happened that is kept after them; None if there was none yet."""
    skipped_at: float | None = None
    """When a stream went on without them; None if no stream skipped them."""
    count: int = 1
    """How many gaps this stands for: the oldest of many are joined, with what is between them."""


def missing_after(store: Store, key: QueueKey, after: str = NOTHING_DROPPED) -> Gap | None:
    """What a queue's journal has dropped after a place so far; None if it is whole from there."""
    try:
        store.events(key, after, 1)
    except EventsDropped as error:
        kept = store.events(key, None, 1)
        first_at = kept[0].at if kept else None
        return Gap(queue=key.name, after=after, until=error.cursor, kept_from=first_at)
    return None


def shortened(gaps: list[Gap]) -> list[Gap]:
    """The same gaps, in order; if a queue has many, its oldest are joined into one."""
    kept = []
    for queue in dict.fromkeys(gap.queue for gap in gaps):
        own = [gap for gap in gaps if gap.queue == queue]
        old, last = own[:-MOST_LISTED], own[-MOST_LISTED:]
        kept += [_joined(old), *last] if old else last
    return sorted(kept, key=lambda gap: gap.skipped_at or 0.0)


def _joined(gaps: list[Gap]) -> Gap:
    count = sum(gap.count for gap in gaps)
    return msgspec.structs.replace(gaps[-1], after=gaps[0].after, count=count)


def ends_of(gaps: Iterable[Gap]) -> dict[str, str]:
    """Where the last gap of each queue ends: lives that go through one cannot be followed."""
    ends: dict[str, str] = {}
    for gap in gaps:
        ends[gap.queue] = max(gap.until, ends.get(gap.queue, gap.until), key=read_cursor)
    return ends


def added(gaps: list[Gap], known: list[Gap]) -> list[Gap]:
    """The gaps that end after all known gaps of their queue."""
    ends = {gap.queue: gap.until for gap in known}
    return [
        gap
        for gap in gaps
        if read_cursor(gap.until) > read_cursor(ends.get(gap.queue, NOTHING_DROPPED))
    ]
