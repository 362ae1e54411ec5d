"""What a request takes until it is over, however it ends: a stream's seat, names it waits for."""

from __future__ import annotations

from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.auth.caller import NAMES
from ackline.service.limits.limits import Limits

_SEAT = "ackline.seat"


class Seated:
    """Wraps all routes: frees what a request took."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            taken = cast("dict[str, Any]", scope)
            seat = taken.get(_SEAT)
            if seat is not None:
                self._limits.leave_seat(seat)
            if NAMES in taken:
                self._limits.leave_names(*taken[NAMES])


def take_seat(limits: Limits, tenant: str, scope: Any) -> None:
    """Take a seat for this request, or `TooManyStreams`."""
    scope[_SEAT] = limits.take_seat(tenant)
