"""Which function runs a kind of job, and under which policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ackline.core.config import Policy
from ackline.core.errors import ConfigError
from ackline.core.job import round_trip
from ackline.core.limits import require_name
from ackline.core.retry import Backoff, backoff_from
from ackline.queue.annotations import import_path_of, is_async, payload_type

DEFAULT_KIND = "default"


class Handler(msgspec.Struct, frozen=True):
    """A handler as it was registered."""

    kind: str
    function: Callable[..., Any]
    is_async: bool
    payload_type: Any
    policy: Policy


class Handlers:
    """The handlers of one queue, by kind."""

    def __init__(self, payload_type: Any) -> None:
        self._payload_type = payload_type
        self._by_kind: dict[str, Handler] = {}
        self._vetoes: list[Callable[[Handler], None]] = []

    def __getitem__(self, kind: str) -> Handler:
        return self._by_kind[kind]

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def get(self, kind: str) -> Handler | None:
        """The handler of a kind, if there is one."""
        return self._by_kind.get(kind)

    def payload_type(self, kind: str) -> Any:
        """What the payload of a kind is declared as: by its handler, or else by the queue."""
        handler = self._by_kind.get(kind)
        return self._payload_type if handler is None else handler.payload_type

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds that can be run."""
        return frozenset(self._by_kind)

    @property
    def policies(self) -> dict[str, Policy]:
        """The policies that were given with handlers, marked as theirs."""
        nothing = Policy()
        return {
            kind: msgspec.structs.replace(handler.policy, from_handler=True)
            for kind, handler in self._by_kind.items()
            if handler.policy != nothing
        }

    def add(self, kind: str, function: Callable[..., Any], policy: Policy) -> None:
        """Register a handler; a kind has one."""
        require_name("kind", kind)
        if kind in self._by_kind:
            raise ConfigError(
                f"kind {kind!r} has a handler already, {import_path_of(self[kind].function)}, so "
                f'{import_path_of(function)} needs a kind of its own: @queue.handler("…")'
            )
        handler = Handler(
            kind=kind,
            function=function,
            is_async=is_async(function),
            payload_type=payload_type(function, self._payload_type),
            policy=policy,
        )
        for ask in self._vetoes:
            ask(handler)
        self._by_kind[kind] = handler

    def on_add(self, veto: Callable[[Handler], None]) -> Callable[[], None]:
        """`ask` may veto new handlers by raising; call the returned function to remove it."""
        self._vetoes.append(veto)

        def no_more() -> None:
            if veto in self._vetoes:
                self._vetoes.remove(veto)

        return no_more


def handler_policy(
    *,
    max_attempts: int | None,
    backoff: Backoff | Sequence[float] | float | None,
    lease: float | None,
    timeout: float | None,
    result_ttl: float | None,
) -> Policy:
    """Read the options that a handler was registered with."""
    policy = Policy(
        max_attempts=max_attempts,
        backoff=backoff_from(backoff) if backoff is not None else None,
        lease=lease,
        timeout=timeout,
        result_ttl=result_ttl,
    )
    return round_trip(policy, Policy)
