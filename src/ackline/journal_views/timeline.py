"""The timeline of one job, from the journal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ackline.core.errors import EventsDropped
from ackline.core.events import Event
from ackline.core.job import QueueKey, Record
from ackline.journal_views.seek import cursor_before
from ackline.stores.contract import Store

PAGE = 1000
TIME_LIMIT = 0.5
"""Seconds to search a long journal, which is ordered by time and not by job."""

MARGIN = 5.0
"""Seconds by which the time of an event may differ from that of the job."""


def timeline(store: Store, key: QueueKey, job: Record) -> tuple[list[Event], bool]:
    """The events of a job, and whether the search was complete."""
    found: list[Event] = []
    cursor = cursor_before(store, job.created_at - MARGIN, key)
    last_at = job.finished_at + MARGIN if job.finished_at is not None else float("inf")
    deadline = time.monotonic() + TIME_LIMIT
    while page := _read(store, key, cursor):
        found += [event for event in page if event.id == job.id]
        cursor = page[-1].cursor
        if page[-1].at > last_at:
            break
        if time.monotonic() > deadline:
            return found, False
    return found, True


def _read(store: Store, key: QueueKey, cursor: str) -> Sequence[Event]:
    try:
        return store.events(key, cursor, PAGE)
    except EventsDropped as error:  # pruned meanwhile
        return store.events(key, error.cursor, PAGE)
