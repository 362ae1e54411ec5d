"""Tickets for streams in a browser."""

from __future__ import annotations

import msgspec
from litestar import Router
from litestar.di import NamedDependency

from ackline.service.auth.caller import Caller
from ackline.service.auth.tickets import TTL, issue
from ackline.service.routes.decorators import post


class Ticket(msgspec.Struct):
    """A ticket, and for how many seconds it can be used."""

    ticket: str
    expires_in: int


@post("/tickets", summary="Get a ticket for a stream")
async def create_ticket(caller: NamedDependency[Caller]) -> Ticket:
    """A ticket opens one stream, as `?ticket=…`, for whoever cannot send a header.

    It allows what the caller may do, and works once: read from a log, it is of no use.
    """
    ticket = await caller.runtime.call(issue, caller.runtime.store, caller.principal)
    return Ticket(ticket, TTL)


router = Router("/", route_handlers=[create_ticket], tags=["Tickets"])
