"""How much memory the bodies of requests take: many that come in halves must not fill it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.problems import Busy

STALLED = "the request stalled, and others need the memory: send it again"

_BODY = "ackline.body"


class ReceivedBody:
    """What one request has sent, until it is answered."""

    def __init__(self, memory: BodyMemory, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._waiting: asyncio.Timeout | None = None
        self._given_up = False
        self.size = 0
        self.heard_at = time.monotonic()
        """When the last piece came."""

    @property
    def tenant(self) -> str:
        """Whose request it is; empty as long as that is not known."""
        principal: Any = self._scope.get("user")
        return principal.tenant if principal is not None else ""

    @property
    def address(self) -> str:
        """Where it comes from."""
        client = self._scope.get("client")
        return client[0] if client else ""

    @property
    def is_waited_for(self) -> bool:
        """Whether its next piece has not come yet."""
        return self._waiting is not None

    async def next(self, receive: Receive) -> Any:
        """The next message; raises `Busy` if others need the memory before it comes."""
        try:
            async with asyncio.timeout(None) as self._waiting:
                message = await receive()
        except TimeoutError:
            raise Busy(STALLED) from None
        finally:
            self._waiting = None
        if self._given_up:  # the piece came in the moment in which it was given up
            raise Busy(STALLED)
        self.heard_at = time.monotonic()
        if message["type"] == "http.request":
            self._memory.take(self, len(message["body"]))
        return message

    def give_up(self) -> None:
        """End the request instead of waiting for the rest of it."""
        self._given_up = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self.forget()

    def forget(self) -> None:
        """What has come is not kept any longer."""
        self._memory.give_back(self)


class BodyMemory:
    """The bodies that a process keeps, no more than `most` bytes of them.

    If there is no room for a piece, the request that stalls most is given up: of the tenant that
    takes the most memory, and there of the address that does, the one that was silent for longest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0
        """How many bytes are kept now."""
        self._bodies: dict[ReceivedBody, None] = {}

    def take(self, body: ReceivedBody, size: int) -> None:
        """Keep one more piece of a body, or raise `Busy`."""
        while self.taken + size > self._most:
            stalled = self._most_stalled()
            if stalled is None:
                body.forget()
                raise Busy("too many large requests are being handled: send this one again")
            stalled.give_up()
        self._bodies[body] = None
        body.size += size
        self.taken += size

    def give_back(self, body: ReceivedBody) -> None:
        """A body is not kept any longer."""
        self.taken -= body.size
        body.size = 0
        self._bodies.pop(body, None)

    def _most_stalled(self) -> ReceivedBody | None:
        of_tenants, of_addresses = Counter[str](), Counter[tuple[str, str]]()
        for body in self._bodies:
            of_tenants[body.tenant] += body.size
            of_addresses[body.tenant, body.address] += body.size
        return max(
            (body for body in self._bodies if body.is_waited_for and body.size),
            key=lambda body: (
                of_tenants[body.tenant],
                of_addresses[body.tenant, body.address],
                -body.heard_at,
            ),
            default=None,
        )


class Remembered:
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
            body.forget()


def body_of(scope: Any) -> ReceivedBody:
    """What the request has sent."""
    return cast("ReceivedBody", scope[_BODY])
