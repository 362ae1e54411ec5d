"""A store's verbs over a wire: their arguments and answers, derived from `Store` itself.

A queue is sent as its name. Its tenant comes from the caller's credentials, never from the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

import msgspec

from ackline.core.job import QueueKey
from ackline.stores.contract import Capabilities, Store

MSGPACK, JSON = "application/vnd.msgpack", "application/json"

TENANT_HEADER = "Ackline-Tenant"
"""The tenant whose queues are meant, percent-encoded; refused if the credentials are another's."""

CONTINUE_AFTER_HEADER = "Ackline-Continue-After"
"""With an empty answer to `events`: this is not the journal's end, ask again after this cursor."""

LISTENING, NOTIFICATION = "listening", "notification"
"""Events of a notification stream: it has started, and there may be something to read."""


class Handshake(msgspec.Struct, frozen=True, kw_only=True):
    """A service's answer to a client that opens it as a store."""

    tenant: str
    """The tenant whose queues the credentials open."""
    capabilities: Capabilities
    version: str
    max_body: int
    """The most bytes of a request; larger ones are refused."""
    max_batch: int
    """The most jobs, ids, holds or keys in one request; more are refused."""
    max_answer: int
    """The most jobs or events in one answer; more are refused."""
    max_listened_queues: int
    """The most queues that one listener hears; more are refused."""
    max_answer_bytes: int
    """After how many bytes of jobs or keys an answer ends."""
    ping_every: float
    """Seconds of silence after which a stream sends a sign that it is alive."""


class WireFormat:
    """How a verb's arguments and answers are encoded in one media type."""

    def __init__(self, module: Any, call: Any, answer: Any) -> None:
        self.write: Callable[[Any], bytes] = module.Encoder().encode
        self.calls = module.Decoder(call)
        self.answers = module.Decoder(answer)


class Verb:
    """One verb of the protocol: its arguments as a struct, and how both sides decode it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        hints = get_type_hints(method)
        parameters = [p for p in inspect.signature(method).parameters.values() if p.name in hints]
        self.name = method.__name__
        self._takes_tenant = "tenant" in hints
        self._queues = {p.name for p in parameters if hints[p.name] in _QUEUE_TYPES}
        self.call = msgspec.defstruct(
            f"{self.name.title().replace('_', '')}Call",
            [_field(p, hints[p.name]) for p in parameters if p.name != "tenant"],
            kw_only=True,
            forbid_unknown_fields=True,
        )
        answer = hints["return"] if self.name != "listen" else None
        self.formats: Mapping[str, WireFormat] = {
            MSGPACK: WireFormat(msgspec.msgpack, self.call, answer),
            JSON: WireFormat(msgspec.json, self.call, answer),
        }

    def pack(self, arguments: Mapping[str, Any]) -> bytes:
        """The arguments as they are sent."""
        sent = {
            name: _name_of(value) if name in self._queues else value
            for name, value in arguments.items()
            if name != "tenant"
        }
        return self.formats[MSGPACK].write(self.call(**sent))

    def unpack(self, call: msgspec.Struct, tenant: str) -> dict[str, Any]:
        """The arguments as a store takes them: every queue is the tenant's."""
        arguments: dict[str, Any] = {"tenant": tenant} if self._takes_tenant else {}
        for name in call.__struct_fields__:
            value = getattr(call, name)
            arguments[name] = _queue_of(tenant, value) if name in self._queues else value
        return arguments


def tenant_of(arguments: Mapping[str, Any]) -> str | None:
    """The tenant whose queues a verb's arguments are about, if they name one."""
    for value in arguments.values():
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(first, QueueKey):
            return first.tenant
    return arguments.get("tenant")


_QUEUE_TYPES: Mapping[Any, Any] = {
    QueueKey: str,
    QueueKey | None: str | None,
    Sequence[QueueKey]: Sequence[str],
}
"""How the types that name a queue are sent."""


def _field(parameter: inspect.Parameter, kind: Any) -> Any:
    sent = _QUEUE_TYPES.get(kind, kind)
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, sent)
    return (parameter.name, sent, parameter.default)


def _name_of(queue: Any) -> Any:
    if queue is None:
        return None
    return queue.name if isinstance(queue, QueueKey) else [one.name for one in queue]


def _queue_of(tenant: str, name: Any) -> Any:
    if name is None:
        return None
    if isinstance(name, str):
        return QueueKey(tenant, name)
    return [QueueKey(tenant, one) for one in name]


VERBS: Mapping[str, Verb] = {
    method.__name__: Verb(method)
    for method in (
        Store.info,
        Store.now,
        Store.enqueue,
        Store.claim,
        Store.apply,
        Store.heartbeat,
        Store.next_due,
        Store.promote,
        Store.leases,
        Store.prune,
        Store.get,
        Store.page,
        Store.describe,
        Store.workers,
        Store.events,
        Store.configure,
        Store.purge,
        Store.drop,
        Store.read_keys,
        Store.write_keys,
    )
}
"""The verbs with one request and one answer.

`listen` is a stream; `join` and `subscribe` have no wire.
"""

LISTEN = Verb(Store.listen)
