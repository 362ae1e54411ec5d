"""The journals that a stream reads, as far as the store still has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ackline.core.errors import EventsDropped
from ackline.core.events import Event, Events, read_cursor
from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.spark.errors import StreamBehind
from ackline.spark.journal.gaps import Gap
from ackline.spark.journal.journals import (
    SCAN_PAGE,
    ActiveQueues,
    cursor_before,
    find_active_queues,
    list_journals,
)
from ackline.spark.options import EventsOptions
from ackline.stores.contract import Listener

logger = logging.getLogger("ackline")


class RetainedJournals:
    """Finds unread events and gaps in the journals that a stream reads."""

    def __init__(self, queues: Queues, options: EventsOptions) -> None:
        self._queues = queues
        self._options = options

    def queue_names(self) -> list[str]:
        """The queues that are read."""
        return list_journals(self._queues) if self._options.queue is None else [self._options.queue]

    def existing_queues(self) -> set[str]:
        """The queues that exist; of dropped ones, only the journal is left."""
        found = self._queues.store.describe(self._queues.tenant, self._options.queue)
        return {info.key.name for info in found}

    def end(self) -> str:
        """Where all journals end now."""
        return self._queues.info().cursor

    def listen(self) -> Listener:
        """Listen for changes in the queues that are read."""
        keys = [QueueKey(self._queues.tenant, name) for name in self.queue_names()]
        return self._queues.store.listen(keys, "changes")

    def active_queues(self, after: str, end: str, known: int) -> ActiveQueues | None:
        """The queues with events between two cursors; None if each queue has to be read."""
        if self._options.queue is not None:
            return None
        return find_active_queues(self._queues, after, end, known)

    def unread(self, cursors: Mapping[str, str], end: str) -> tuple[dict[str, str], list[Gap]]:
        """The queues that have events after `cursors`, up to `end`, with where to continue.

        `EventsDropped` if some of these are gone, unless they may be skipped; then also the gaps.
        """
        unread, gaps, last = {}, [], read_cursor(end)
        for name, cursor in cursors.items():
            if read_cursor(cursor) >= last:
                continue
            kept, first = self.first_retained(name, cursor)
            if read_cursor(kept) > last:
                continue
            if kept != cursor:
                gaps.append(self._gap(name, cursor, kept, first))
                unread[name] = kept
            if first is not None and read_cursor(first.cursor) <= last:
                # The next event may be far ahead, with nothing before it.
                unread[name] = max(kept, cursor_before(first), key=read_cursor)
        return unread, gaps

    def dropped_between(self, starts: Mapping[str, str], ends: Mapping[str, str]) -> list[Gap]:
        """What has been dropped between these cursors, in queues that may be skipped."""
        gaps = []
        for name, cursor in starts.items():
            end = ends.get(name, cursor)
            if read_cursor(end) <= read_cursor(cursor) or not self._options.may_skip(name):
                continue
            kept, first = self.first_retained(name, cursor)
            until = min(kept, end, key=read_cursor)
            if read_cursor(until) > read_cursor(cursor):
                gaps.append(self._gap(name, cursor, until, first))
        return gaps

    def _gap(self, name: str, after: str, until: str, first: Event | None) -> Gap:
        return Gap(
            queue=name,
            after=after,
            until=until,
            retained_from=None if first is None else first.at,
            skipped_at=self._queues.store.now(),
        )

    def first_retained(self, name: str, cursor: str) -> tuple[str, Event | None]:
        """Where a queue can be read from: `cursor`, or after the events that may be skipped.

        Together with the first event after that, if there is one.
        """
        key = QueueKey(self._queues.tenant, name)
        while True:
            try:
                page = self._queues.store.events(key, cursor, 1)
                return cursor, page[0] if page else None
            except EventsDropped as error:
                if not self._options.may_skip(name):
                    raise self._behind(name, cursor, error) from None
                logger.warning(
                    "queue %r has dropped events after cursor %s: the stream skips those up to %s",
                    *(name, cursor, error.cursor),
                )
                cursor = error.cursor

    def advance(self, name: str, after: str, end: str, max_events: int) -> tuple[str, int]:
        """The cursor after `max_events` events, or the end; and how many events are before it."""
        store, key, left = self._queues.store, QueueKey(self._queues.tenant, name), max_events
        while left > 0:
            try:
                events = store.events(key, after, min(left, SCAN_PAGE))
            except EventsDropped as error:
                raise self._behind(name, after, error) from None
            page = Events.from_sequence(events).until(end)
            if page.cursor is None:
                return end, max_events - left
            after, left = page.cursor, left - len(page)
        return after, max_events

    def _behind(self, name: str, cursor: str, error: EventsDropped) -> EventsDropped:
        """The error to raise; if events may be skipped, the same one, and planning starts over."""
        return error if self._options.may_skip(name) else StreamBehind(name, cursor, error.cursor)
