"""What a request uses until it ends: a stream slot, and the queues that it waits for."""

from __future__ import annotations

from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.limits.limiter import Limiter

_SLOT = "ackline.stream_slot"

WAITING_QUEUES = "ackline.waiting_queues"
"""Where a request's scope has its tenant and how many queues it waits for."""


class ReleaseSlots:
    """ASGI middleware that releases what a request has used."""

    def __init__(self, app: ASGIApp, limits: Limiter) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            used = cast("dict[str, Any]", scope)
            slot = used.get(_SLOT)
            if slot is not None:
                self._limits.release_stream_slot(slot)
            if WAITING_QUEUES in used:
                self._limits.release_waiting_queues(*used[WAITING_QUEUES])


def acquire_stream_slot(limits: Limiter, tenant: str, scope: Any) -> None:
    """Acquire a stream slot for this request, or raise `TooManyStreams`."""
    scope[_SLOT] = limits.acquire_stream_slot(tenant)
