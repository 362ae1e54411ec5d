"""The journal for clients: as pages and as a stream, with a summary of each sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from ackline.core.errors import EventsDropped
from ackline.core.events import Act, Event, read_cursor
from ackline.core.job import QueueKey
from ackline.journal_views.latest_events import EventFilter, LatestEvents, latest_events
from ackline.queue.transfer.documents import EventDocument, event_document
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.events.expiry_summary import SweepDocument, sweeps_ending_in
from ackline.service.http.sse import PING, sse_event
from ackline.service.wakeups.stream_wakeup import StreamWakeup

PAGE = 500
FIRST_CURSOR = "0.0"
"""The cursor before everything."""

_encode = msgspec.json.Encoder().encode


Entry = EventDocument | SweepDocument


class CallerJournal:
    """What a caller may read of the journal: of one queue, or of all that it may see."""

    def __init__(self, caller: Caller, queue: str | None) -> None:
        if queue is None:
            caller.require(Permission.READ_EVENTS)
            self._key: QueueKey | None = None
        else:
            self._key = caller.queue(queue, Permission.READ_EVENTS).sync.key
        self._caller = caller
        self._runtime = caller.runtime
        self._store = caller.runtime.store
        self._queue = queue

    async def end(self) -> str:
        """Where the journal ends now."""
        return (await self._runtime.call(self._store.info)).cursor

    async def read(self, after: str | None, limit: int) -> tuple[list[Event], str | None]:
        """The next events, and where to read on."""
        page = await self._runtime.call(self._page, after, limit)
        return self._visible(page), page[-1].cursor if page else after

    def _page(self, after: str | None, limit: int) -> Sequence[Event]:
        return self._store.events(self._key, after, limit, tenant=self._caller.tenant)

    async def require_existing_cursor(self, cursor: str | None) -> None:
        """Refuse a cursor past the end: it is of a store that was replaced, or restored."""
        if cursor is not None and read_cursor(cursor) > read_cursor(await self.end()):
            raise EventsDropped("the service", cursor, FIRST_CURSOR)

    async def sweeps(self, events: Sequence[Event]) -> dict[str, list[SweepDocument]]:
        """Summaries of sweeps that end among these events, by the cursor of their last event."""
        if not any(one.act is Act.EXPIRE for one in events):
            return {}
        return await self._runtime.call(sweeps_ending_in, self._store, events, self._visible)

    async def latest(self, count: int, wanted: EventFilter) -> tuple[LatestEvents, str]:
        """The last events that are wanted, and where to read on."""
        end = await self.end()

        def chosen(events: list[Event]) -> list[Event]:
            return [one for one in self._visible(events) if wanted.matches(one)]

        return await self._caller.run_slow(latest_events, self._page, end, count, chosen), end

    def _visible(self, events: Sequence[Event]) -> list[Event]:
        return list(filter(self._caller.principal.can_see, events))

    async def follow(self, after: str | None) -> AsyncIterator[bytes]:
        """An endless stream of events after a cursor (None: from now on)."""
        stream = self._runtime.streams.open(self._caller.principal.until)
        try:
            tenant, cursor = self._caller.tenant, after or await self.end()
            async with StreamWakeup(self._runtime, stream, tenant, "changes", self._queue) as news:
                yield PING
                unchecked = after
                while not stream.ended:
                    try:
                        await self.require_existing_cursor(unchecked)
                        unchecked = None
                        events, cursor, more = await self._next(cursor)
                    except EventsDropped as error:
                        unchecked, cursor = None, error.cursor
                        yield sse_event("dropped", _encode({"cursor": cursor}), cursor)
                        continue
                    entries = interleave_sweeps(events, await self.sweeps(events))
                    if chunk := b"".join(map(_encode_event, entries)):
                        news.mark_sent()
                        yield chunk
                    elif news.ping_due:
                        news.mark_sent()
                        yield PING
                    if not more:
                        await news.wait()
        finally:
            self._runtime.streams.close(stream)

    async def _next(self, cursor: str) -> tuple[list[Event], str, bool]:
        """The next events, where to read on, and whether there is more to read now."""
        key = (self._key, self._caller.tenant, cursor)
        look = partial(self._look, cursor)
        page, end = await self._runtime.journal_single_flight.call(key, look, self._runtime.call)
        return self._visible(page), page[-1].cursor if page else end, bool(page)

    def _look(self, cursor: str) -> tuple[Sequence[Event], str]:
        """The next events, and the end of the journal from before the look.

        While nothing at all is written, the end is all that is asked for.
        """
        end = self._store.info().cursor
        if end == cursor:
            return (), cursor
        page = self._page(cursor, PAGE)
        # Nothing was found up to the end, and what is written from now on comes after it.
        return page, max(end, cursor, key=read_cursor)


def interleave_sweeps(
    events: Iterable[Event], sweeps: Mapping[str, list[SweepDocument]]
) -> Iterator[Entry]:
    """Each event; and before the last one of a sweep, what the sweep did."""
    for one in events:
        # Before the last event: a client that continues after that one must have seen the sweep.
        yield from sweeps.get(one.cursor, ())
        yield event_document(one)


def _encode_event(entry: Entry) -> bytes:
    if isinstance(entry, SweepDocument):
        return sse_event(entry.type, _encode(entry))
    return sse_event(entry.act.value, _encode(entry), entry.cursor)
