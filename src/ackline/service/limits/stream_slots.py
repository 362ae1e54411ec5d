"""What a request takes until it is over, however it ends: a stream's seat, names it waits for."""

from __future__ import annotations

from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.auth.caller import WAITING_QUEUES
from ackline.service.limits.limiter import Limiter

_SLOT = "ackline.seat"


class ReleaseSlots:
    """Wraps all routes: frees what a request took."""

    def __init__(self, app: ASGIApp, limits: Limiter) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            taken = cast("dict[str, Any]", scope)
            seat = taken.get(_SLOT)
            if seat is not None:
                self._limits.release_stream_slot(seat)
            if WAITING_QUEUES in taken:
                self._limits.uncount_waiting_queues(*taken[WAITING_QUEUES])


def acquire_stream_slot(limits: Limiter, tenant: str, scope: Any) -> None:
    """Take a seat for this request, or `TooManyStreams`."""
    scope[_SLOT] = limits.acquire_stream_slot(tenant)
