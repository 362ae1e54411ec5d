"""Webhooks: receivers, and which events they get."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from ackline.core.events import Act, Event, read_cursor
from ackline.core.job import State
from ackline.service.webhooks.signing import Secret, new_secret
from ackline.stores.contract import StoreInfo

FILTERS = ("acts", "states", "queues", "kinds")

CALLBACKS = "callbacks"
"""The id of every tenant's built-in webhook for the `callback_url` of its jobs."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A receiver, and which events it gets; None means all."""

    id: str
    tenant: str
    url: str | None
    """None for callbacks: each job has its own."""
    acts: frozenset[Act] | None = None
    states: frozenset[State] | None = None
    """Only events with which a job reaches one of these states."""
    queues: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    active: bool = True
    note: str = ""
    secrets: tuple[Secret, ...]
    """The newest first."""
    since: str
    """The journal's end when it was created: it gets the events after that."""
    since_of: dict[str, str] = {}
    """The same for single queues: it gets no events from before a queue was added."""
    created_at: float

    def since_for(self, queue: str) -> str:
        """The cursor after which it gets events of a queue."""
        return self.since_of.get(queue, self.since)

    def matches(self, event: Event) -> bool:
        """Whether it gets an event."""
        return (
            self.active
            and self.url is not None
            and read_cursor(event.cursor) > read_cursor(self.since_for(event.queue.name))
            and (self.acts is None or event.act in self.acts)
            and (self.states is None or event.reached in self.states)
            and (self.queues is None or event.queue.name in self.queues)
            and (self.kinds is None or event.kind in self.kinds)
        )


def new_id() -> str:
    """A new id, unique among all tenants."""
    return f"wh_{secrets.token_hex(12)}"


def new_webhook(tenant: str, url: str, now: StoreInfo, **fields: Any) -> Webhook:
    """A webhook with a new secret, which gets events from now on."""
    return Webhook(
        id=new_id(),
        tenant=tenant,
        url=url,
        secrets=(new_secret(),),
        since=now.cursor,
        created_at=now.now,
        **fields,
    )


def filter_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The filters among these fields."""
    found = {name: fields[name] for name in FILTERS if name in fields}
    return {name: None if value is None else frozenset(value) for name, value in found.items()}


def with_changes(found: Webhook, changes: Mapping[str, Any], end: str) -> Webhook:
    """A webhook with changed fields; events that it did not get before, it gets from `end` on."""
    since, since_of = found.since, found.since_of
    if changes.get("active") and not found.active:
        since, since_of = end, {}
    elif "queues" in changes:
        since, since_of = _since_after_widening(found, changes["queues"], end)
    return msgspec.structs.replace(found, **changes, since=since, since_of=since_of)


def _since_after_widening(
    found: Webhook, queues: frozenset[str] | None, end: str
) -> tuple[str, dict[str, str]]:
    before = found.queues
    if queues is not None:
        new = frozenset() if before is None else queues - before
        return found.since, {name: end if name in new else found.since_for(name) for name in queues}
    if before is None:
        return found.since, found.since_of
    return end, {name: found.since_for(name) for name in before}


def callback_webhook(tenant: str, since: str, now: float) -> Webhook:
    """The webhook for a tenant's callbacks, with a new secret."""
    return Webhook(
        id=CALLBACKS,
        tenant=tenant,
        url=None,
        secrets=(new_secret(),),
        since=since,
        created_at=now,
    )
