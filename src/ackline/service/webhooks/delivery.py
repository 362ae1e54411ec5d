"""Deliveries: events on their way to a receiver, as jobs of the service's own queue."""

from __future__ import annotations

import base64
import datetime
import hashlib
from typing import Any, TypeGuard

import msgspec

from ackline.core.events import Event
from ackline.core.job import QueueKey, Record, State
from ackline.queue import NewJob, Queue
from ackline.queue.transfer.documents import event_document, result_json
from ackline.queues import Queues
from ackline.service.auth.credentials import SERVICE_TENANT
from ackline.service.webhooks.concurrency import group_for
from ackline.service.webhooks.webhook import Webhook
from ackline.stores.contract import Store

QUEUE = QueueKey(SERVICE_TENANT, "webhooks")
KIND = "deliver"
TEST = "test"
"""The type of test messages."""

MAX_RESULT = 256 * 1024
"""Maximum bytes of a result in a callback; larger ones have to be fetched."""

MAX_PAYLOAD = 4 * 1024 * 1024
"""Maximum bytes of a delivery: always enough, as its parts have limits of their own."""

_encode = msgspec.json.Encoder().encode


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a webhook; a callback has its own URL."""

    tenant: str
    webhook: str
    body: msgspec.Raw
    url: str | None = None


class WebhookMessage(msgspec.Struct, frozen=True):
    """The message that a receiver gets."""

    type: str
    """The act, as in the journal."""
    timestamp: str
    data: Any


def open_queue(store: Store) -> Queue[Delivery, Any]:
    """The queue of all deliveries, in the service's own tenant."""
    queues = Queues(store, QUEUE.tenant)
    return queues.queue(QUEUE.name, payload=Delivery, max_payload=MAX_PAYLOAD)


def event_delivery(webhook: Webhook, event: Event, group_count: int) -> NewJob[Delivery]:
    """The delivery of an event to a webhook."""
    return _job(webhook, event, msgspec.to_builtins(event_document(event)), None, group_count)


def callback_delivery(
    webhook: Webhook, event: Event, record: Record | None, group_count: int
) -> NewJob[Delivery]:
    """The callback to a finished job's own URL, with its result or its error.

    The URL is in the event: by now the job may be deleted, moved, or replaced.
    """
    data: dict[str, Any] = msgspec.to_builtins(event_document(event))
    data |= _outcome(record) if _unchanged_since(record, event) else _outcome_from_event(event)
    return _job(webhook, event, data, event.callback_url, group_count)


def test_delivery(webhook: Webhook, id: str, now: float, group_count: int) -> NewJob[Delivery]:
    """A test message, to see whether it arrives."""
    body = WebhookMessage(TEST, _iso(now), {"webhook": webhook.id})
    return _new(webhook, id, body, None, group_count)


def _unchanged_since(record: Record | None, event: Event) -> TypeGuard[Record]:
    """Whether the job is still as this event left it, with the same token."""
    return record is not None and record.state is event.to and record.token == event.token


def _outcome_from_event(event: Event) -> dict[str, Any]:
    if event.to is State.COMPLETED:
        return {"result_left_out": True}
    return {"error": event.note or None}


def _outcome(record: Record) -> dict[str, Any]:
    if record.state is State.COMPLETED:
        result = result_json(record)
        fits = len(bytes(result)) <= MAX_RESULT
        return {"result": result} if fits else {"result_left_out": True}
    failure = record.failure
    return {"error": f"{failure.type}: {failure.message}" if failure is not None else None}


def _job(
    webhook: Webhook, event: Event, data: Any, url: str | None, group_count: int
) -> NewJob[Delivery]:
    id = delivery_id(webhook, event)
    return _new(webhook, id, WebhookMessage(event.act, _iso(event.at), data), url, group_count)


def _new(
    webhook: Webhook, id: str, body: WebhookMessage, url: str | None, group_count: int
) -> NewJob[Delivery]:
    delivery = Delivery(webhook.tenant, webhook.id, msgspec.Raw(_encode(body)), url)
    return NewJob(
        delivery,
        id=id,
        kind=KIND,
        group=group_for(webhook.tenant, url or webhook.url or "", group_count),
    )


def delivery_id(webhook: Webhook, event: Event) -> str:
    """An id that only depends on the event and the webhook."""
    parts = (webhook.tenant, webhook.id, event.queue.name, event.cursor)
    digest = hashlib.sha256(_encode(parts)).digest()
    return "msg_" + base64.b32encode(digest[:20]).decode().lower()


def _iso(timestamp: float) -> str:
    at = datetime.datetime.fromtimestamp(timestamp, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
