"""Tickets for streams in a browser."""

from __future__ import annotations

import msgspec
from litestar import Router
from litestar.di import NamedDependency

from ackline.service.auth.caller import Caller
from ackline.service.auth.tickets import LIFE, issue
from ackline.service.handlers import post


class Ticket(msgspec.Struct):
    """A ticket, and for how many seconds it can be used."""

    ticket: str
    expires_in: int


@post("/tickets", summary="Get a ticket for a stream")
async def make_ticket(caller: NamedDependency[Caller]) -> Ticket:
    """A ticket opens one stream, as `?ticket=…`, for whoever cannot send a header.

    It allows what the caller may do, and works once: read from a log, it is of no use.
    """
    ticket = await caller.runtime.call(issue, caller.runtime.store, caller.principal)
    return Ticket(ticket, LIFE)


router = Router("/", route_handlers=[make_ticket], tags=["Tickets"])
