"""The journal for one caller: as pages and as a stream, with a summary of each sweep."""

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
"""The cursor before the first event."""

_encode = msgspec.json.Encoder().encode


Entry = EventDocument | SweepDocument


class CallerJournal:
    """The journal as a caller can read it: of one queue, or of all queues that it can see."""

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
        """The cursor of the journal's end."""
        return (await self._runtime.call(self._store.info)).cursor

    async def read(self, after: str | None, limit: int) -> tuple[list[Event], str | None]:
        """The next events, and the cursor to continue after."""
        page = await self._runtime.call(self._page, after, limit)
        return self._visible(page), page[-1].cursor if page else after

    def _page(self, after: str | None, limit: int) -> Sequence[Event]:
        return self._store.events(self._key, after, limit, tenant=self._caller.tenant)

    async def require_existing_cursor(self, cursor: str | None) -> None:
        """Refuse a cursor beyond the end: it is from before the store was replaced or restored."""
        if cursor is not None and read_cursor(cursor) > read_cursor(await self.end()):
            raise EventsDropped("the service", cursor, FIRST_CURSOR)

    async def sweeps(self, events: Sequence[Event]) -> dict[str, list[SweepDocument]]:
        """Summaries of sweeps that end among these events, by the cursor of their last event."""
        if not any(event.act is Act.EXPIRE for event in events):
            return {}
        return await self._runtime.call(sweeps_ending_in, self._store, events, self._visible)

    async def latest(self, count: int, event_filter: EventFilter) -> tuple[LatestEvents, str]:
        """The last events that match, and the cursor to continue after."""
        end = await self.end()

        def select(events: list[Event]) -> list[Event]:
            return [event for event in self._visible(events) if event_filter.matches(event)]

        return await self._caller.run_slow(latest_events, self._page, end, count, select), end

    def _visible(self, events: Sequence[Event]) -> list[Event]:
        return list(filter(self._caller.principal.can_see, events))

    async def follow(self, after: str | None) -> AsyncIterator[bytes]:
        """An endless stream of the events after a cursor (None: from now on)."""
        stream = self._runtime.streams.open(self._caller.principal.until)
        try:
            tenant, cursor = self._caller.tenant, after or await self.end()
            async with StreamWakeup(
                self._runtime, stream, tenant, "changes", self._queue
            ) as wakeup:
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
                        wakeup.mark_sent()
                        yield chunk
                    elif wakeup.ping_due:
                        wakeup.mark_sent()
                        yield PING
                    if not more:
                        await wakeup.wait()
        finally:
            self._runtime.streams.close(stream)

    async def _next(self, cursor: str) -> tuple[list[Event], str, bool]:
        """The next events, the cursor to continue after, and whether there may be more now."""
        key = (self._key, self._caller.tenant, cursor)
        read = partial(self._read_next, cursor)
        page, end = await self._runtime.journal_single_flight.call(key, read, self._runtime.call)
        return self._visible(page), page[-1].cursor if page else end, bool(page)

    def _read_next(self, cursor: str) -> tuple[Sequence[Event], str]:
        """The next events, and the end of the journal from before reading them.

        While nothing is written, only the end is read.
        """
        end = self._store.info().cursor
        if end == cursor:
            return (), cursor
        page = self._page(cursor, PAGE)
        # If there was nothing up to the end, what is written from now on comes after it.
        return page, max(end, cursor, key=read_cursor)


def interleave_sweeps(
    events: Iterable[Event], sweeps: Mapping[str, list[SweepDocument]]
) -> Iterator[Entry]:
    """The events; and before the last one of each sweep, the summaries of the sweep."""
    for event in events:
        # Before the last event: a client that continues after it must have seen the summary.
        yield from sweeps.get(event.cursor, ())
        yield event_document(event)


def _encode_event(entry: Entry) -> bytes:
    if isinstance(entry, SweepDocument):
        return sse_event(entry.type, _encode(entry))
    return sse_event(entry.act.value, _encode(entry), entry.cursor)
