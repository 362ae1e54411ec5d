"""What happened to one job, as the journal tells it."""

from __future__ import annotations

import time

from ackline.errors import EventsDropped
from ackline.events import Event
from ackline.job import QueueKey
from ackline.stores.base import Store

PAGE = 1000
PATIENCE = 0.5
"""Seconds to look through a long journal: it is kept by time and not by job."""


def timeline(store: Store, key: QueueKey, id: str) -> tuple[list[Event], bool]:
    """The events of a job, and whether all of the journal was looked through."""
    found: list[Event] = []
    cursor: str | None = None
    until = time.monotonic() + PATIENCE
    while page := _read(store, key, cursor):
        found += [event for event in page if event.id == id]
        cursor = page[-1].cursor
        if time.monotonic() > until:
            return found, False
    return found, True


def _read(store: Store, key: QueueKey, cursor: str | None) -> list[Event]:
    try:
        return store.events(key, cursor, PAGE)
    except EventsDropped as error:  # pruned while we look
        return store.events(key, error.cursor, PAGE)
