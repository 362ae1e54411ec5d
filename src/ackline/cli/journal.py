"""The journal as the commands follow it: of all queues or of one, by cursor or by reader name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from ackline.errors import EventsDropped
from ackline.events import Event, make_cursor, read_cursor
from ackline.job import QueueKey
from ackline.queue import JournalReader
from ackline.stores.base import Store

PAGE = 1000
BEGINNING = make_cursor(0, 0)
LONGEST_WAIT = 0.5
"""Seconds after which new queues are looked for too."""

Tell = Callable[[EventsDropped], None]


class Journal:
    """A place in the journal of a tenant, all queues or one.

    It raises `EventsDropped` only if events right after the given cursor are gone. If events are
    dropped while it reads, it calls `tell` and continues with those that are kept.
    """

    def __init__(self, store: Store, tenant: str, key: QueueKey | None, tell: Tell) -> None:
        self._store = store
        self._tenant = tenant
        self._key = key
        self._tell = tell
        self.cursor: str | None = None

    def read(self, after: str | None) -> Iterator[Event]:
        """Events from a cursor to the end; `cursor` moves on after each event that was consumed."""
        began = after is None
        if after is None and self._key is None:
            after = self._last_gap()
            yield from self._pass(self._before(after) if after is not None else ())
        self.cursor = after
        yield from self._pass(self._pages(self._key, after, began=began))

    def follow(self) -> Iterator[Event]:
        """Events from where `read` ended, without end."""
        while True:
            keys = self._keys()
            with self._store.listen(keys, "changes") as listener:
                while keys == self._keys():
                    yield from self._pass(self._pages(self._key, self.cursor, began=True))
                    listener.wait(LONGEST_WAIT)

    def _pass(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if event.queue.tenant == self._tenant:
                yield event
            self.cursor = event.cursor

    def _last_gap(self) -> str | None:
        """The cursor after which no journal has gaps; None if nothing was ever dropped."""
        try:
            self._store.events(None, BEGINNING, 1)
        except EventsDropped as error:
            return error.cursor
        return None

    def _before(self, gap: str) -> Iterator[Event]:
        """The events kept up to the gap, in order: each queue's journal begins at another place."""
        journals = [self._pages(key, None, began=True) for key in self._keys()]
        for event in heapq.merge(*journals, key=lambda event: read_cursor(event.cursor)):
            if read_cursor(event.cursor) > read_cursor(gap):
                return
            yield event

    def _pages(self, key: QueueKey | None, after: str | None, *, began: bool) -> Iterator[Event]:
        while True:
            try:
                page = self._store.events(key, after, PAGE)
            except EventsDropped as error:
                if not began:
                    raise
                self._tell(error)
                after = error.cursor
                continue
            if not page:
                return
            yield from page
            after, began = page[-1].cursor, True

    def _keys(self) -> list[QueueKey]:
        if self._key is not None:
            return [self._key]
        return [info.key for info in self._store.describe(self._tenant)]


class NamedJournal:
    """The journal of one queue, as a registered reader reads on and saves its place."""

    def __init__(self, store: Store, key: QueueKey, reader: JournalReader, tell: Tell) -> None:
        self._store = store
        self._key = key
        self._reader = reader
        self._tell = tell
        self._began = False
        self._done: str | None = None

    def read(self) -> Iterator[Event]:
        """Events to the end; the place is saved after each page that was consumed."""
        while page := self._page():
            for event in page:
                yield event
                self._done = event.cursor
            self._reader.save()

    def follow(self) -> Iterator[Event]:
        """Events from there on, without end."""
        with self._store.listen([self._key], "changes") as listener:
            while True:
                yield from self.read()
                listener.wait(LONGEST_WAIT)

    def save(self) -> None:
        """Save the place within a page that was not consumed to its end."""
        if self._done is not None:
            self._reader.cursor = self._done
            self._reader.save()

    def _page(self) -> list[Event]:
        while True:
            try:
                page = self._reader.read(PAGE)
            except EventsDropped as error:
                if not self._began:
                    raise
                self._tell(error)
                self._reader.cursor = error.cursor
            else:
                self._began = True
                return page
