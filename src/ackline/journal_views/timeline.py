"""What happened to one job, as the journal tells it."""

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
"""Seconds to look through a long journal: it is kept by time and not by job."""

MARGIN = 5.0
"""Seconds by which an entry's time may differ from the job's own."""


def timeline(store: Store, key: QueueKey, job: Record) -> tuple[list[Event], bool]:
    """The events of a job, and whether all of its life was looked through."""
    found: list[Event] = []
    cursor = cursor_before(store, job.created_at - MARGIN, key)
    over = job.finished_at + MARGIN if job.finished_at is not None else float("inf")
    until = time.monotonic() + TIME_LIMIT
    while page := _read(store, key, cursor):
        found += [event for event in page if event.id == job.id]
        cursor = page[-1].cursor
        if page[-1].at > over:
            break
        if time.monotonic() > until:
            return found, False
    return found, True


def _read(store: Store, key: QueueKey, cursor: str) -> Sequence[Event]:
    try:
        return store.events(key, cursor, PAGE)
    except EventsDropped as error:  # pruned while we look
        return store.events(key, error.cursor, PAGE)
