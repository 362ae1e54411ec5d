"""How much memory the bodies of requests take: many that come in halves must not fill it."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from functools import cached_property
from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.problems import Busy

STALLED = "the request stalled, and others need the memory: send it again"

_BODY = "ackline.body"

Place = tuple[str, str]
"""A tenant, which is empty as long as that is not known, and an address."""


class ReceivedBody:
    """What one request has sent, until it is answered or no longer needed."""

    def __init__(self, memory: BodyMemory, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._waiting: asyncio.Timeout | None = None
        self._given_up = False
        self._complete = False
        self.size = 0
        self.whole: bytes | None = None
        """All of it, once it has come."""

    @cached_property
    def place(self) -> Place:
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
                self._memory.wait(self)
                message = await receive()
        except TimeoutError:
            raise Busy(STALLED) from None
        finally:
            self._waiting = None
            self._memory.wait_no_more(self)
        if self._given_up:  # the piece came in the moment in which it was given up
            raise Busy(STALLED)
        if message["type"] == "http.request":
            self._complete = not message.get("more_body", False)
            self._memory.take(self, len(message["body"]))
        return message

    def give_up(self) -> None:
        """End the request instead of waiting for the rest of it."""
        self._given_up = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self._memory.wait_no_more(self)
        self.forget()

    def forget(self) -> None:
        """What has come is not kept any longer."""
        self.whole = b""
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
        self._of_tenants = Counter[str]()
        self._of_places = Counter[Place]()
        self._waiting: defaultdict[Place, OrderedDict[ReceivedBody, None]]
        self._waiting = defaultdict(OrderedDict)
        """Those whose next piece has not come; of each place, the one silent for longest first."""

    def take(self, body: ReceivedBody, size: int) -> None:
        """Keep one more piece of a body, or raise `Busy`."""
        while self.taken + size > self._most:
            stalled = self._most_stalled()
            if stalled is None:
                body.forget()
                raise Busy("too many large requests are being handled: send this one again")
            stalled.give_up()
        self._count(body, size)

    def give_back(self, body: ReceivedBody) -> None:
        """A body is not kept any longer."""
        self._count(body, -body.size)

    def wait(self, body: ReceivedBody) -> None:
        """The next piece of a body has to come, or the body may be given up."""
        if body.size:
            self._waiting[body.place][body] = None

    def wait_no_more(self, body: ReceivedBody) -> None:
        """It has come, or nobody waits for it."""
        if body.size:
            waiting = self._waiting[body.place]
            waiting.pop(body, None)
            if not waiting:
                del self._waiting[body.place]

    def _count(self, body: ReceivedBody, size: int) -> None:
        if size:
            tenant, _ = body.place
            body.size += size
            self.taken += size
            _add(self._of_tenants, tenant, size)
            _add(self._of_places, body.place, size)

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
