"""The wire format of store methods: requests and responses, derived from `Store` itself.

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
"""The tenant, percent-encoded; refused if the credentials are those of another tenant."""

CONTINUE_AFTER_HEADER = "Ackline-Continue-After"
"""With an empty response to `events`: not the end of the journal, continue after this cursor."""

LISTENING, NOTIFICATION = "listening", "notification"
"""Events of a notification stream: it has started, and there may be something to read."""


class Handshake(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a service to a client that opens it as a store."""

    tenant: str
    """The tenant whose queues the credentials give access to."""
    capabilities: Capabilities
    version: str
    max_body: int
    """The largest request in bytes; larger ones are refused."""
    max_batch: int
    """The most jobs, ids, leases or keys in one request; more are refused."""
    max_answer: int
    """The most jobs or events in one response; a higher limit is refused."""
    max_listened_queues: int
    """The most queues of one listener; more are refused."""
    max_answer_bytes: int
    """The size in bytes at which a response with jobs or keys ends."""
    ping_every: float
    """Seconds without an event after which a stream sends a ping."""


class WireFormat:
    """How the requests and responses of a verb are encoded in one media type."""

    def __init__(self, module: Any, request: Any, response: Any) -> None:
        self.encode: Callable[[Any], bytes] = module.Encoder().encode
        self.requests = module.Decoder(request)
        self.responses = module.Decoder(response)


class Verb:
    """A method of `Store` as a request: its arguments as a struct, and its encodings."""

    def __init__(self, method: Callable[..., Any]) -> None:
        hints = get_type_hints(method)
        parameters = [p for p in inspect.signature(method).parameters.values() if p.name in hints]
        self.name = method.__name__
        self._takes_tenant = "tenant" in hints
        self._queues = {p.name for p in parameters if hints[p.name] in _QUEUE_TYPES}
        self.request = msgspec.defstruct(
            f"{self.name.title().replace('_', '')}Request",
            [_field(p, hints[p.name]) for p in parameters if p.name != "tenant"],
            kw_only=True,
            forbid_unknown_fields=True,
        )
        response = hints["return"] if self.name != "listen" else None
        self.formats: Mapping[str, WireFormat] = {
            MSGPACK: WireFormat(msgspec.msgpack, self.request, response),
            JSON: WireFormat(msgspec.json, self.request, response),
        }

    def pack(self, arguments: Mapping[str, Any]) -> bytes:
        """The encoded request with these arguments."""
        sent = {
            name: _name_of(value) if name in self._queues else value
            for name, value in arguments.items()
            if name != "tenant"
        }
        return self.formats[MSGPACK].encode(self.request(**sent))

    def unpack(self, request: msgspec.Struct, tenant: str) -> dict[str, Any]:
        """The arguments for a store; every queue is one of the tenant's."""
        arguments: dict[str, Any] = {"tenant": tenant} if self._takes_tenant else {}
        for name in request.__struct_fields__:
            value = getattr(request, name)
            arguments[name] = _queue_of(tenant, value) if name in self._queues else value
        return arguments


def tenant_of(arguments: Mapping[str, Any]) -> str | None:
    """The tenant of the queues in a verb's arguments, if any."""
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
"""How types that name a queue are sent."""


def _field(parameter: inspect.Parameter, kind: Any) -> Any:
    sent = _QUEUE_TYPES.get(kind, kind)
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, sent)
    return (parameter.name, sent, parameter.default)


def _name_of(queue: Any) -> Any:
    if queue is None:
        return None
    return queue.name if isinstance(queue, QueueKey) else [key.name for key in queue]


def _queue_of(tenant: str, name: Any) -> Any:
    if name is None:
        return None
    if isinstance(name, str):
        return QueueKey(tenant, name)
    return [QueueKey(tenant, each) for each in name]


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
"""The methods that are one request with one response.

`listen` is a stream; `join` and `subscribe` are not available over the wire.
"""

LISTEN = Verb(Store.listen)
