"""The journal for clients: as pages and as a stream, with a summary of each sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from ackline.errors import EventsDropped
from ackline.events import Act, Event, read_cursor
from ackline.job import QueueKey, State
from ackline.maintenance.reaper import HEARTBEAT_MISSED
from ackline.service import parting
from ackline.service.caller import Caller, Scope
from ackline.service.documents import EventDocument, event_document
from ackline.service.news import News
from ackline.service.streams import PING, event
from ackline.service.tail import Tail, Wanted, look_back

PAGE = 500

TRIGGERS = {
    HEARTBEAT_MISSED: "heartbeat",
    parting.REASON: "disconnect",
    "worker process": "supervisor",
}
"""Who took leases back, by how the reason begins; all others were found lapsed."""

_encode = msgspec.json.Encoder().encode


class SweepDocument(msgspec.Struct):
    """What one sweep did: how many jobs it requeued, or moved to the DLQ."""

    type: str
    timestamp: int
    """Milliseconds since 1970."""
    payload: dict[str, Any]


Told = EventDocument | SweepDocument


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
        page = await self._runtime.call(self._store.events, self._key, after, limit)
        return self._visible(page), page[-1].cursor if page else after

    async def last(self, count: int, wanted: Wanted) -> tuple[Tail, str]:
        """The last events that are wanted, and where to read on."""
        end = await self.end()

        def chosen(events: list[Event]) -> list[Event]:
            return [one for one in self._visible(events) if wanted.matches(one)]

        call = self._runtime.call
        return await call(look_back, self._store, self._key, end, count, chosen), end

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
                while not stream.ended:
                    try:
                        events, cursor = await self._next(cursor)
                    except EventsDropped as error:
                        cursor = error.cursor
                        yield event("dropped", _encode({"cursor": cursor}), cursor)
                        continue
                    if said := b"".join(map(_wire, tell(events))):
                        news.spoke()
                        yield said
                    elif news.silent:
                        news.spoke()
                        yield PING
                    if not events:
                        await news.wait()
        finally:
            self._runtime.streams.close(stream)

    async def _next(self, cursor: str) -> tuple[list[Event], str]:
        while True:
            events, end = await self.read(cursor, PAGE)
            if events or end == cursor or end is None:
                return events, end or cursor
            cursor = end


def tell(events: Iterable[Event]) -> Iterator[Told]:
    """Each event; and before the last one of a sweep, what the sweep did."""
    for entries in _batches(events):
        for one in entries[:-1]:
            yield event_document(one)
        # Before the last event: whoever continues after that one must have seen this.
        yield from _sweep(entries)
        yield event_document(entries[-1])


def sweeps_of(events: Iterable[Event]) -> list[SweepDocument]:
    """What the sweeps among these events did."""
    return [sweep for entries in _batches(events) for sweep in _sweep(entries)]


def _batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    """What was done in one step, together."""
    for _, batch in groupby(events, lambda one: (one.queue, read_cursor(one.cursor)[0])):
        yield list(batch)


def _sweep(entries: list[Event]) -> Iterator[SweepDocument]:
    swept = [one for one in entries if one.act is Act.EXPIRE]
    if not swept:
        return
    dead = sum(one.to is State.FAILED for one in swept)
    at = round(swept[-1].at * 1000)
    requeued = {
        "count": len(swept) - dead,
        "dlq_count": dead,
        "triggered_by": _trigger(swept[-1].note),
    }
    yield SweepDocument("requeue", at, requeued)
    if dead:
        yield SweepDocument("move_to_dlq", at, {"count": dead})


def _trigger(note: str) -> str:
    reason = note.partition(": ")[2]  # behind the type of the failure
    return next((word for said, word in TRIGGERS.items() if reason.startswith(said)), "scheduler")


def _wire(told: Told) -> bytes:
    if isinstance(told, SweepDocument):
        return event(told.type, _encode(told))
    return event(told.act.value, _encode(told), told.cursor)
