"""Events: the journal by pages or as a stream, and tickets that open a stream."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Router
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream
from msgspec import UNSET, UnsetType

from ackline.core.events import Act, Event, read_cursor
from ackline.journal_views.latest_events import EventFilter
from ackline.queue.transfer.documents import EventDocument, event_document
from ackline.service.auth.caller import Caller
from ackline.service.auth.tickets import TTL, issue
from ackline.service.events.expiry_summary import SweepDocument
from ackline.service.events.journal import CallerJournal
from ackline.service.http.parameters import PageSize
from ackline.service.http.problems import Unprocessable
from ackline.service.http.sse import stream_response
from ackline.service.routes.decorators import get, post

QueueFilter = Annotated[str | None, QueryParameter(description="Only this queue.")]
After = Annotated[str | None, QueryParameter(description="Only events after this cursor.")]
LastCount = Annotated[
    int | None,
    QueryParameter(
        ge=1, le=1000, description="Return the last N events instead of those after a cursor."
    ),
]
ActList = Annotated[list[Act] | None, QueryParameter(name="act", description="Only these acts.")]
EventText = Annotated[
    str | None,
    QueryParameter(
        max_length=1000,
        description="Only events whose id, kind, worker, note or actor contains this text.",
    ),
]
LastEventId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="The id of the last received event."),
]


class EventPage(msgspec.Struct):
    """Events, summaries of the sweeps among them, and the cursor to continue after.

    The cursor stays the same if there are no more events yet.
    """

    events: list[EventDocument]
    sweeps: list[SweepDocument]
    cursor: str | None
    complete: bool | UnsetType = UNSET
    """With `last`: false if older events may match, too; the search takes a second at most."""


@get("/", summary="Read events", problems=(410,))
async def list_events(
    caller: NamedDependency[Caller],
    queue: QueueFilter = None,
    after: After = None,
    limit: PageSize = 100,
    last: LastCount = None,
    acts: ActList = None,
    text: EventText = None,
) -> EventPage:
    """A page of the journal; 410 if events after the cursor are no longer kept.

    Also 410 if the cursor is beyond the end: it is from before the store was replaced or restored.

    With `act` or `text` a page may have few events or none although there are more: continue
    after the cursor. `last` searches backwards from the end.
    """
    journal, event_filter = (
        CallerJournal(caller, queue),
        EventFilter(frozenset(acts or Act), text or ""),
    )
    if last is None:
        events, cursor = await journal.read(_valid_cursor(after), limit)
        if not events:
            await journal.require_existing_cursor(after or None)
        return await _page(
            journal, [event for event in events if event_filter.matches(event)], cursor
        )
    if after is not None:
        raise Unprocessable("`last` and `after` exclude each other", at="after")
    found, end = await journal.latest(last, event_filter)
    return await _page(journal, found.events, end, found.complete)


async def _page(
    journal: CallerJournal,
    events: list[Event],
    cursor: str | None,
    complete: bool | UnsetType = UNSET,
) -> EventPage:
    sweeps = await journal.sweeps(events)
    summaries = [sweep for event in events for sweep in sweeps.get(event.cursor, ())]
    return EventPage([event_document(event) for event in events], summaries, cursor, complete)


@get("/stream", summary="Follow events (SSE)", media_type="text/event-stream")
async def stream_events(
    caller: NamedDependency[Caller],
    queue: QueueFilter = None,
    after: After = None,
    last_event_id: LastEventId = None,
) -> Stream:
    """A stream of events, named by act, with cursors as ids: from now on, or after a cursor.

    A browser that reconnects continues where it stopped.
    """
    journal = CallerJournal(caller, queue)
    return stream_response(journal.follow(_valid_cursor(last_event_id) or _valid_cursor(after)))


def _valid_cursor(cursor: str | None) -> str | None:
    try:
        read_cursor(cursor)
    except ValueError as error:
        raise Unprocessable(str(error), at="after") from None
    return cursor or None


class Ticket(msgspec.Struct):
    """A ticket, and for how many seconds it is valid."""

    ticket: str
    expires_in: int


@post("/", summary="Get a ticket for a stream")
async def create_ticket(caller: NamedDependency[Caller]) -> Ticket:
    """A ticket opens one stream, as `?ticket=…`, for clients that cannot send headers.

    It allows what the caller may do, and works once, so that it is useless in logs.
    """
    ticket = await caller.runtime.call(issue, caller.runtime.store, caller.principal)
    return Ticket(ticket, TTL)


of_events = Router("/events", route_handlers=[list_events, stream_events], tags=["Events"])
of_tickets = Router("/tickets", route_handlers=[create_ticket], tags=["Tickets"])
router = Router("/", route_handlers=[of_events, of_tickets])
