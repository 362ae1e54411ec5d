"""One delivery: an event on its way to a receiver, as a job of the service's own queue."""

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
"""The type of a message about no event."""

MAX_RESULT = 256 * 1024
"""Bytes of a result that a callback carries; a larger one has to be fetched."""

MAX_PAYLOAD = 4 * 1024 * 1024
"""Bytes of a delivery: always enough, because its parts have limits of their own."""

_encode = msgspec.json.Encoder().encode


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent on behalf of which webhook; a callback has its own URL."""

    tenant: str
    webhook: str
    body: msgspec.Raw
    url: str | None = None


class WebhookMessage(msgspec.Struct, frozen=True):
    """What a receiver reads."""

    type: str
    """The act, as the journal has it."""
    timestamp: str
    data: Any


def open_queue(store: Store) -> Queue[Delivery, Any]:
    """The queue of all deliveries. No caller is of its tenant, so none can write to it."""
    queues = Queues(store, QUEUE.tenant)
    return queues.queue(QUEUE.name, payload=Delivery, max_payload=MAX_PAYLOAD)


def event_delivery(webhook: Webhook, event: Event, group_count: int) -> NewJob[Delivery]:
    """The delivery of an event to a webhook."""
    return _job(webhook, event, msgspec.to_builtins(event_document(event)), None, group_count)


def callback_delivery(
    webhook: Webhook, event: Event, record: Record | None, lanes: int
) -> NewJob[Delivery]:
    """The callback to a job's own URL at its end, with its result or its error.

    The event has the URL: by now the job may be gone, moved, or replaced by one with another URL.
    """
    data: dict[str, Any] = msgspec.to_builtins(event_document(event))
    data |= _outcome(record) if _unchanged_since(record, event) else _outcome_from_event(event)
    return _job(webhook, event, data, event.callback_url, lanes)


def test_delivery(webhook: Webhook, id: str, now: float, lanes: int) -> NewJob[Delivery]:
    """A message about no event, to see whether it arrives."""
    body = WebhookMessage(TEST, _iso(now), {"webhook": webhook.id})
    return _new(webhook, id, body, None, lanes)


def _unchanged_since(record: Record | None, event: Event) -> TypeGuard[Record]:
    """Whether the job is still as this event left it, under the same token."""
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
    webhook: Webhook, event: Event, data: Any, url: str | None, lanes: int
) -> NewJob[Delivery]:
    id = delivery_id(webhook, event)
    return _new(webhook, id, WebhookMessage(event.act, _iso(event.at), data), url, lanes)


def _new(
    webhook: Webhook, id: str, body: WebhookMessage, url: str | None, lanes: int
) -> NewJob[Delivery]:
    delivery = Delivery(webhook.tenant, webhook.id, msgspec.Raw(_encode(body)), url)
    return NewJob(
        delivery, id=id, kind=KIND, group=group_for(webhook.tenant, url or webhook.url or "", lanes)
    )


def delivery_id(webhook: Webhook, event: Event) -> str:
    """An id that is the same for the same event and webhook, whichever process makes it."""
    words = (webhook.tenant, webhook.id, event.queue.name, event.cursor)
    digest = hashlib.sha256(_encode(words)).digest()
    return "msg_" + base64.b32encode(digest[:20]).decode().lower()


def _iso(moment: float) -> str:
    at = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
