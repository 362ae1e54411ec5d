"""Call the methods of a service's store, in several requests where its limits require that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ackline.core.errors import StoreClosed, StoreMismatch
from ackline.stores.http.connection import ConnectionPool
from ackline.stores.wire import MSGPACK, VERBS, Handshake, Verb, tenant_of

T = TypeVar("T")

_decode_handshake = msgspec.msgpack.Decoder(Handshake).decode


class StoreClient:
    """Calls a service; its handshake says how much fits in one request and one response."""

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._limits: Handshake | None = None

    def handshake(self) -> Handshake:
        """Get the service's tenant, capabilities and limits, before the first call."""
        response = self._connections.post("handshake", b"")
        self._limits = self._read(response.body, _decode_handshake)
        return self._limits

    @property
    def limits(self) -> Handshake:
        """The limits of the service, its tenant and its capabilities."""
        if self._limits is None:
            raise StoreClosed(f"the store at {self._connections.where} was never opened")
        return self._limits

    def call(self, method: Callable[..., T], **arguments: Any) -> T:
        """Call a method of the service's store, in one request."""
        verb = VERBS[method.__name__]
        result: T = self._send(verb, verb.pack(arguments), arguments)
        return result

    def call_each(self, method: Callable[..., list[T]], part: str, **arguments: Any) -> list[T]:
        """Call a method with all items of the argument `part`, in several requests if necessary."""
        items, results = arguments[part], list[T]()
        while True:
            rest = {**arguments, part: items[len(results) :]}
            results += self.call_first(method, part, **rest)
            if len(results) >= len(items):
                return results

    def call_first(self, method: Callable[..., list[T]], part: str, **arguments: Any) -> list[T]:
        """Call a method with as many items of the argument `part` as fit in one request.

        The response may have a limit, too: then it is about the first of them.
        """
        verb, items = VERBS[method.__name__], arguments[part]
        size = min(len(items), self.limits.max_batch)
        while True:
            first = {**arguments, part: items[:size]}
            body = verb.pack(first)
            if size < 2 or not self.exceeds_limits(first[part], body):
                results: list[T] = self._send(verb, body, first)
                return results
            size = -(-size // 2)

    def call_until_done(self, method: Callable[..., int], limit: int, **arguments: Any) -> int:
        """Call a method for up to `limit` jobs, in several requests if needed; returns how many."""
        done = 0
        while True:
            per_call = self.clamp_limit(limit - done)
            count = self.call(method, limit=per_call, **arguments)
            done += count
            if count < per_call or done == limit:
                return done

    def clamp_limit(self, limit: int) -> int:
        """The limit, reduced to what fits in one response."""
        return min(limit, self.limits.max_answer)

    def exceeds_limits(self, items: Sequence[object], body: bytes) -> bool:
        """Whether the service would refuse these items or this body in one request."""
        return len(items) > self.limits.max_batch or len(body) > self.limits.max_body

    def _send(self, verb: Verb, body: bytes, arguments: Mapping[str, Any]) -> Any:
        tenant = tenant_of(arguments)
        response = self._connections.post(verb.name, body, tenant)
        while response.continue_after is not None:
            body = verb.pack({**arguments, "after": response.continue_after})
            response = self._connections.post(verb.name, body, tenant)
        return self._read(response.body, verb.formats[MSGPACK].responses.decode)

    def _read(self, body: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            where = self._connections.where
            raise StoreMismatch(
                f"{where} sent an unexpected response; it may run another version: {error}"
            ) from None
