"""A limit on the memory of request bodies, so that many incomplete ones cannot exhaust it."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from functools import cached_property
from typing import Any, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from ackline.service.http.problems import Busy

STALLED_MESSAGE = "the request stalled while others needed the memory: send it again"

_BODY = "ackline.body"

ClientKey = tuple[str, str]
"""A tenant, empty before authentication, and an address."""


class ReceivedBody:
    """The body of one request, until the request is answered or the body is no longer needed."""

    def __init__(self, memory: BodyMemory, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._waiting: asyncio.Timeout | None = None
        self._evicted = False
        self._complete = False
        self.size = 0
        self.content: bytes | None = None
        """The whole body, once it has arrived."""

    @cached_property
    def client_key(self) -> ClientKey:
        """The tenant and the address of the client."""
        principal: Any = self._scope.get("user")
        client = self._scope.get("client")
        return principal.tenant if principal is not None else "", client[0] if client else ""

    async def next(self, receive: Receive) -> Any:
        """The next ASGI message; raises `Busy` if others need the memory before it arrives."""
        if self._complete:
            return await receive()  # only `http.disconnect` can follow
        try:
            async with asyncio.timeout(None) as self._waiting:
                self._memory.mark_waiting(self)
                message = await receive()
        except TimeoutError:
            raise Busy(STALLED_MESSAGE) from None
        finally:
            self._waiting = None
            self._memory.mark_not_waiting(self)
        if self._evicted:  # the chunk arrived just as the body was evicted
            raise Busy(STALLED_MESSAGE)
        if message["type"] == "http.request":
            self._complete = not message.get("more_body", False)
            self._memory.reserve(self, len(message["body"]))
        return message

    def evict(self) -> None:
        """Fail the request instead of waiting for the rest of its body."""
        self._evicted = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self._memory.mark_not_waiting(self)
        self.release()

    def release(self) -> None:
        """Release the memory of what has arrived."""
        self.content = b""
        self._memory.release(self)


class BodyMemory:
    """The request bodies of a process, at most `max_bytes` of them.

    If a chunk does not fit, a stalled request is evicted: of the tenant that uses the most memory,
    and there of the address that does, the one that has been waiting longest.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.used = 0
        """Bytes in memory now."""
        self._used_by_tenant = Counter[str]()
        self._used_by_client = Counter[ClientKey]()
        self._waiting: defaultdict[ClientKey, OrderedDict[ReceivedBody, None]]
        self._waiting = defaultdict(OrderedDict)
        """Bodies whose next chunk has not arrived, by client; the longest waiting first."""

    def reserve(self, body: ReceivedBody, size: int) -> None:
        """Reserve memory for one more chunk, or raise `Busy`."""
        while self.used + size > self._max_bytes:
            stalled = self._most_stalled()
            if stalled is None:
                body.release()
                raise Busy("too many large requests are being handled: send this one again")
            stalled.evict()
        self._count(body, size)

    def release(self, body: ReceivedBody) -> None:
        """Release the memory of a body."""
        self._count(body, -body.size)

    def mark_waiting(self, body: ReceivedBody) -> None:
        """The body waits for its next chunk, and may be evicted."""
        if body.size:
            self._waiting[body.client_key][body] = None

    def mark_not_waiting(self, body: ReceivedBody) -> None:
        """The chunk has arrived, or nobody waits for it."""
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
            _add(self._used_by_tenant, tenant, size)
            _add(self._used_by_client, body.client_key, size)

    def _most_stalled(self) -> ReceivedBody | None:
        client = max(
            self._waiting,
            key=lambda client: (self._used_by_tenant[client[0]], self._used_by_client[client]),
            default=None,
        )
        return None if client is None else next(iter(self._waiting[client]))


def _add(counts: Counter[Any], key: Any, size: int) -> None:
    counts[key] += size
    if not counts[key]:
        del counts[key]


class TrackBodies:
    """ASGI middleware that counts the body of each request until it is answered."""

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
    """The body of a request, as far as it has arrived."""
    return cast("ReceivedBody", scope[_BODY])
