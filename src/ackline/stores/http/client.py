"""Verbs as requests to a service, split into several where its limits require that."""

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
        """Learn the service's tenant, capabilities and limits, before the first call."""
        answer = self._connections.post("handshake", b"")
        self._limits = self._read(answer.body, _decode_handshake)
        return self._limits

    @property
    def limits(self) -> Handshake:
        """What the service reported about itself."""
        if self._limits is None:
            raise StoreClosed(f"the store at {self._connections.where} was never opened")
        return self._limits

    def ask(self, method: Callable[..., T], **arguments: Any) -> T:
        """Run one verb of the service's store, in one request."""
        verb = VERBS[method.__name__]
        answer: T = self._send(verb, verb.pack(arguments), arguments)
        return answer

    def ask_each(self, method: Callable[..., list[T]], part: str, **arguments: Any) -> list[T]:
        """Run a verb on all items of the argument `part`, in several requests if need be."""
        items, answers = arguments[part], list[T]()
        while True:
            rest = {**arguments, part: items[len(answers) :]}
            answers += self.ask_first(method, part, **rest)
            if len(answers) >= len(items):
                return answers

    def ask_first(self, method: Callable[..., list[T]], part: str, **arguments: Any) -> list[T]:
        """Run a verb on as many of the items of the argument `part` as fit in one request.

        Its answer may have a limit, too: then it is about the first of them.
        """
        verb, items = VERBS[method.__name__], arguments[part]
        size = min(len(items), self.limits.max_batch)
        while True:
            first = {**arguments, part: items[:size]}
            body = verb.pack(first)
            if size < 2 or not self.too_many(first[part], body):
                answers: list[T] = self._send(verb, body, first)
                return answers
            size = -(-size // 2)

    def ask_in_rounds(self, method: Callable[..., int], limit: int, **arguments: Any) -> int:
        """Run a verb on up to `limit` jobs, in several requests if need be; returns how many."""
        done = 0
        while True:
            at_once = self.clamp_limit(limit - done)
            count = self.ask(method, limit=at_once, **arguments)
            done += count
            if count < at_once or done == limit:
                return done

    def clamp_limit(self, limit: int) -> int:
        """The limit cut down to what fits in one answer; callers that want more ask again."""
        return min(limit, self.limits.max_answer)

    def too_many(self, items: Sequence[object], body: bytes) -> bool:
        """Whether the service would refuse these items, or a body of this size, in one request."""
        return len(items) > self.limits.max_batch or len(body) > self.limits.max_body

    def _send(self, verb: Verb, body: bytes, arguments: Mapping[str, Any]) -> Any:
        tenant = tenant_of(arguments)
        answer = self._connections.post(verb.name, body, tenant)
        while answer.continue_after is not None:
            body = verb.pack({**arguments, "after": answer.continue_after})
            answer = self._connections.post(verb.name, body, tenant)
        return self._read(answer.body, verb.formats[MSGPACK].responses.decode)

    def _read(self, answer: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(answer)
        except msgspec.DecodeError as error:
            where = self._connections.where
            raise StoreMismatch(f"{where} speaks another Ackline's language: {error}") from None
