"""The journal for clients: as pages and as a stream, with a summary of each sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

import msgspec

from ackline.errors import EventsDropped
from ackline.events import Act, Event, make_cursor, read_cursor
from ackline.job import QueueKey
from ackline.service.caller import Caller, Scope
from ackline.service.documents import EventDocument, event_document
from ackline.service.news import News
from ackline.service.streams import PING, event
from ackline.service.sweeps import SweepDocument, sweeps_among
from ackline.service.tail import Tail, Wanted, look_back
from ackline.stores.base import Store

PAGE = 500
BEGIN = "0.0"
"""The cursor before everything."""

_encode = msgspec.json.Encoder().encode


Entry = EventDocument | SweepDocument


class Journal:
    """What a caller may read of the journal: of one queue, or of all that it may see."""

    def __init__(self, caller: Caller, queue: str | None) -> None:
        if queue is None:
            caller.require(Scope.READ)
            self._key: QueueKey | None = None
        else:
            self._key = caller.queue(queue, Scope.READ).sync.key
        self._caller = caller
        self._runtime = caller.runtime
        self._store = caller.runtime.store
        self._queue = queue

    async def end(self) -> str:
        """Where the journal ends now."""
        return (await self._runtime.call(self._store.info)).cursor

    async def read(self, after: str | None, limit: int) -> tuple[list[Event], str | None]:
        """The next events, and where to read on."""
        events, cursor, _ = await self._runtime.call(self._read, after, limit)
        return events, cursor

    def _read(self, after: str | None, limit: int) -> tuple[list[Event], str | None, bool]:
        """The next events, where to read on, and whether there is more to read now."""
        page = self._store.events(self._key, after, limit)
        if not page:
            return [], after, False
        cursor = page[-1].cursor
        events = self._visible(page)
        if events or self._key is not None:
            return events, cursor, True
        return [], *next_of_tenant(self._store, self._caller.tenant, cursor)

    async def require_written(self, cursor: str | None) -> None:
        """Refuse a cursor past the end: it is of a store that was replaced, or restored."""
        if cursor is not None and read_cursor(cursor) > read_cursor(await self.end()):
            raise EventsDropped("the service", cursor, BEGIN)

    async def sweeps(self, events: Sequence[Event]) -> dict[str, list[SweepDocument]]:
        """Summaries of sweeps that end among these events, by the cursor of their last event."""
        if not any(one.act is Act.EXPIRE for one in events):
            return {}
        return await self._runtime.call(sweeps_among, self._store, events, self._visible)

    async def last(self, count: int, wanted: Wanted) -> tuple[Tail, str]:
        """The last events that are wanted, and where to read on."""
        end = await self.end()

        def chosen(events: list[Event]) -> list[Event]:
            return [one for one in self._visible(events) if wanted.matches(one)]

        slowly = self._caller.slowly
        return await slowly(look_back, self._store, self._key, end, count, chosen), end

    def _visible(self, events: Sequence[Event]) -> list[Event]:
        caller, kinds = self._caller, self._caller.principal.kinds
        return [
            one
            for one in events
            if one.queue.tenant == caller.tenant
            and caller.may_see(one.queue.name)
            and (kinds is None or not one.id or one.kind in kinds)
        ]

    async def follow(self, after: str | None) -> AsyncIterator[bytes]:
        """An endless stream of events after a cursor (None: from now on)."""
        stream = self._runtime.streams.open(self._caller.principal.until)
        try:
            tenant, cursor = self._caller.tenant, after or await self.end()
            async with News(self._runtime, stream, tenant, "changes", self._queue) as news:
                yield PING
                unchecked = after
                while not stream.ended:
                    try:
                        await self.require_written(unchecked)
                        unchecked = None
                        events, cursor, more = await self._next(cursor)
                    except EventsDropped as error:
                        unchecked, cursor = None, error.cursor
                        yield event("dropped", _encode({"cursor": cursor}), cursor)
                        continue
                    entries = with_sweeps(events, await self.sweeps(events))
                    if chunk := b"".join(map(_wire, entries)):
                        news.spoke()
                        yield chunk
                    elif news.silent:
                        news.spoke()
                        yield PING
                    if not more:
                        await news.wait()
        finally:
            self._runtime.streams.close(stream)

    async def _next(self, cursor: str) -> tuple[list[Event], str, bool]:
        events, end, more = await self._runtime.call(self._read, cursor, PAGE)
        return events, end or cursor, more


def next_of_tenant(store: Store, tenant: str, after: str) -> tuple[str, bool]:
    """Where a tenant's next events begin, and whether there are any yet; else the journal's end.

    Only the tenant's own journals are read, so other tenants' events cost it nothing.
    """
    # First of all: what is written from now on comes after this, so nothing is skipped.
    end = read_cursor(store.info().cursor)
    begins = [
        _before(found[0])
        for info in store.describe(tenant, dropped=True)
        if (found := store.events(info.key, after, 1))
    ]
    nearest = min([*begins, end])
    return make_cursor(*max(nearest, read_cursor(after))), nearest < end


def _before(event: Event) -> tuple[int, int]:
    batch, used = read_cursor(event.cursor)
    return batch, used - 1


def with_sweeps(
    events: Iterable[Event], sweeps: Mapping[str, list[SweepDocument]]
) -> Iterator[Entry]:
    """Each event; and before the last one of a sweep, what the sweep did."""
    for one in events:
        # Before the last event: a client that continues after that one must have seen the sweep.
        yield from sweeps.get(one.cursor, ())
        yield event_document(one)


def _wire(entry: Entry) -> bytes:
    if isinstance(entry, SweepDocument):
        return event(entry.type, _encode(entry))
    return event(entry.act.value, _encode(entry), entry.cursor)
