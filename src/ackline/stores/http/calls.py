"""Verbs as requests to a service: as many of them as its limits ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ackline.errors import StoreClosed, StoreMismatch
from ackline.stores.http.connection import Connections
from ackline.stores.wire import MSGPACK, VERBS, Verb, Welcome, tenant_of

T = TypeVar("T")

_read_welcome = msgspec.msgpack.Decoder(Welcome).decode


class Calls:
    """Asks a service, and knows from its welcome how much one request and one answer may have."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._welcome: Welcome | None = None

    def greet(self) -> Welcome:
        """Learn who the service is and what it takes, before the first call."""
        answer = self._connections.post("welcome", b"")
        self._welcome = self._read(answer.body, _read_welcome)
        return self._welcome

    @property
    def welcome(self) -> Welcome:
        """What the service said of itself."""
        if self._welcome is None:
            raise StoreClosed(f"the store at {self._connections.where} was never opened")
        return self._welcome

    def ask(self, method: Callable[..., T], **arguments: Any) -> T:
        """Have the service's store do one thing, in one request."""
        verb = VERBS[method.__name__]
        answer: T = self._send(verb, verb.pack(arguments), arguments)
        return answer

    def ask_each(self, method: Callable[..., list[T]], part: str, **arguments: Any) -> list[T]:
        """Ask for each of many; in several requests if one would be too large for the service."""
        verb, many = VERBS[method.__name__], arguments[part]
        size = min(len(many), self.welcome.max_batch)
        if size == len(many):
            body = verb.pack(arguments)
            if size < 2 or not self.too_many(many, body):
                answers: list[T] = self._send(verb, body, arguments)
                return answers
            size = -(-size // 2)
        return [
            answer
            for start in range(0, len(many), size)
            for answer in self.ask_each(
                method, part, **{**arguments, part: many[start : start + size]}
            )
        ]

    def ask_in_rounds(self, method: Callable[..., int], limit: int, **arguments: Any) -> int:
        """Do it for so many, in as many requests as it takes; answers for how many it was done."""
        done = 0
        while True:
            some = self.answerable(limit - done)
            count = self.ask(method, limit=some, **arguments)
            done += count
            if count < some or done == limit:
                return done

    def answerable(self, limit: int) -> int:
        """Of so many, how many one answer may have: who wants more asks again."""
        return min(limit, self.welcome.max_answer)

    def too_many(self, many: Sequence[object], body: bytes) -> bool:
        """Whether the service would refuse so many, or so large a body, in one request."""
        return len(many) > self.welcome.max_batch or len(body) > self.welcome.max_body

    def _send(self, verb: Verb, body: bytes, arguments: Mapping[str, Any]) -> Any:
        tenant = tenant_of(arguments)
        answer = self._connections.post(verb.name, body, tenant)
        while answer.read_on is not None:
            body = verb.pack({**arguments, "after": answer.read_on})
            answer = self._connections.post(verb.name, body, tenant)
        return self._read(answer.body, verb.formats[MSGPACK].answers.decode)

    def _read(self, answer: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(answer)
        except msgspec.DecodeError as error:
            where = self._connections.where
            raise StoreMismatch(f"{where} speaks another Ackline's language: {error}") from None
