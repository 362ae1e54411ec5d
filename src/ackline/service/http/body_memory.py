"""How much memory the bodies of requests take: many that come in halves must not fill it."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from functools import cached_property
from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.http.problems import Busy

STALLED_MESSAGE = "the request stalled, and others need the memory: send it again"

_BODY = "ackline.body"

ClientKey = tuple[str, str]
"""A tenant, which is empty as long as that is not known, and an address."""


class ReceivedBody:
    """What one request has sent, until it is answered or no longer needed."""

    def __init__(self, memory: BodyMemory, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._waiting: asyncio.Timeout | None = None
        self._evicted = False
        self._complete = False
        self.size = 0
        self.content: bytes | None = None
        """All of it, once it has come."""

    @cached_property
    def client_key(self) -> ClientKey:
        """Whose request it is, and where it comes from."""
        principal: Any = self._scope.get("user")
        client = self._scope.get("client")
        return principal.tenant if principal is not None else "", client[0] if client else ""

    async def next(self, receive: Receive) -> Any:
        """The next message; raises `Busy` if others need the memory before it comes."""
        if self._complete:
            return await receive()  # only that the client leaves
        try:
            async with asyncio.timeout(None) as self._waiting:
                self._memory.mark_waiting(self)
                message = await receive()
        except TimeoutError:
            raise Busy(STALLED_MESSAGE) from None
        finally:
            self._waiting = None
            self._memory.unmark_waiting(self)
        if self._evicted:  # the piece came in the moment in which it was given up
            raise Busy(STALLED_MESSAGE)
        if message["type"] == "http.request":
            self._complete = not message.get("more_body", False)
            self._memory.reserve(self, len(message["body"]))
        return message

    def evict(self) -> None:
        """End the request instead of waiting for the rest of it."""
        self._evicted = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self._memory.unmark_waiting(self)
        self.release()

    def release(self) -> None:
        """What has come is not kept any longer."""
        self.content = b""
        self._memory.release(self)


class BodyMemory:
    """The bodies that a process keeps, no more than `most` bytes of them.

    If there is no room for a piece, the request that stalls most is given up: of the tenant that
    takes the most memory, and there of the address that does, the one that was silent for longest.
    """

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
        self.used = 0
        """How many bytes are kept now."""
        self._of_tenants = Counter[str]()
        self._of_places = Counter[ClientKey]()
        self._waiting: defaultdict[ClientKey, OrderedDict[ReceivedBody, None]]
        self._waiting = defaultdict(OrderedDict)
        """Those whose next piece has not come; of each place, the one silent for longest first."""

    def reserve(self, body: ReceivedBody, size: int) -> None:
        """Keep one more piece of a body, or raise `Busy`."""
        while self.used + size > self._most:
            stalled = self._most_stalled()
            if stalled is None:
                body.release()
                raise Busy("too many large requests are being handled: send this one again")
            stalled.evict()
        self._count(body, size)

    def release(self, body: ReceivedBody) -> None:
        """A body is not kept any longer."""
        self._count(body, -body.size)

    def mark_waiting(self, body: ReceivedBody) -> None:
        """The next piece of a body has to come, or the body may be given up."""
        if body.size:
            self._waiting[body.client_key][body] = None

    def unmark_waiting(self, body: ReceivedBody) -> None:
        """It has come, or nobody waits for it."""
        if body.size:
            waiting = self._waiting[body.client_key]
            waiting.pop(body, None)
            if not waiting:
                del self._waiting[body.client_key]

    def _count(self, body: ReceivedBody, size: int) -> None:
        if size:
            tenant, _ = body.client_key
            body.size += size
            self.used += size
            _add(self._of_tenants, tenant, size)
            _add(self._of_places, body.client_key, size)

    def _most_stalled(self) -> ReceivedBody | None:
        place = max(
            self._waiting,
            key=lambda place: (self._of_tenants[place[0]], self._of_places[place]),
            default=None,
        )
        return None if place is None else next(iter(self._waiting[place]))


def _add(counts: Counter[Any], key: Any, size: int) -> None:
    counts[key] += size
    if not counts[key]:
        del counts[key]


class TrackBodies:
    """Wraps all routes: counts what a request sends, until it is answered."""

    def __init__(self, app: ASGIApp, memory: BodyMemory) -> None:
        self._app = app
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = ReceivedBody(self._memory, scope)
        cast("dict[str, Any]", scope)[_BODY] = body

        async def counted() -> Any:
            return await body.next(receive)

        try:
            await self._app(scope, counted, send)
        finally:
            body.release()


def received_body(scope: Any) -> ReceivedBody:
    """What the request has sent."""
    return cast("ReceivedBody", scope[_BODY])
