"""Webhooks as the admins of a tenant manage them, over HTTP and by commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ackline.core.errors import InvalidOption, WrongState
from ackline.core.events import Act
from ackline.core.ids import new_id as new_delivery_id
from ackline.core.job import Record, State
from ackline.core.lifecycle import redrive
from ackline.core.limits import require_url
from ackline.queue.transfer.documents import Attempt, attempt_document
from ackline.service.http.paging import JobOrder, read_page
from ackline.service.http.problems import Conflict, NotFound
from ackline.service.webhooks import delivery, repository, signing
from ackline.service.webhooks.concurrency import delivery_groups
from ackline.service.webhooks.delivery import QUEUE, Delivery
from ackline.service.webhooks.destinations import DestinationPolicy, DestinationRefused
from ackline.service.webhooks.settings import WebhookSettings
from ackline.service.webhooks.webhook import (
    CALLBACKS,
    Webhook,
    callback_webhook,
    filter_fields,
    new_webhook,
    with_changes,
)
from ackline.service.webhooks.worker import DeliveryResult
from ackline.stores.contract import Filter, Store

_read_delivery = msgspec.json.Decoder(Delivery).decode
_read_type = msgspec.json.Decoder(delivery.WebhookMessage).decode
_decode_result = msgspec.json.Decoder(DeliveryResult).decode


class WebhookDocument(msgspec.Struct, kw_only=True):
    """A webhook; its secrets are only shown when they are created."""

    id: str
    url: str | None
    acts: list[Act] | None
    states: list[State] | None
    queues: list[str] | None
    kinds: list[str] | None
    active: bool
    note: str
    created_at: float
    secret: str | UnsetType = UNSET


class DeliveryDocument(msgspec.Struct):
    """A delivery: what is sent, its attempts, and what the receiver answered."""

    id: str
    state: State
    type: str
    attempts: int
    created_at: float
    next_at: float | None
    finished_at: float | None
    status: int | None
    history: list[Attempt]
    body: msgspec.Raw


class DeliveryPage(msgspec.Struct):
    """A page of deliveries; pass `cursor` back for the next one, null ends it."""

    deliveries: list[DeliveryDocument]
    cursor: str | None


class WebhookService:
    """Manages the webhooks of a tenant. Blocks."""

    def __init__(self, store: Store, tenant: str, settings: WebhookSettings) -> None:
        self._store = store
        self._tenant = tenant
        self._settings = settings

    # --- webhooks ---

    def all(self) -> list[Webhook]:
        """All webhooks of the tenant."""
        return repository.list_webhooks(self._store, self._tenant)

    def find(self, id: str) -> Webhook:
        """A webhook, or `NotFound`."""
        return _required(repository.find(self._store, self._tenant, id), id)

    def create(self, url: str, fields: Mapping[str, Any], note: str = "") -> Webhook:
        """Create a webhook with a new secret."""
        self._require_url(url)
        existing = len(self.all())
        if existing >= self._settings.max_webhooks:
            raise Conflict(
                f"a tenant may have {self._settings.max_webhooks:,} webhooks: delete one first"
            )
        info = self._store.info()
        webhook = new_webhook(self._tenant, url, info, note=note, **filter_fields(fields))
        repository.add(self._store, webhook)
        return webhook

    def change(self, id: str, fields: Mapping[str, Any]) -> Webhook:
        """Change some fields of a webhook."""
        if id == CALLBACKS and fields.keys() - {"active", "note"}:
            raise InvalidOption("only `active` and `note` of callbacks can be changed")
        if "url" in fields:
            self._require_url(fields["url"])
        changes = {**fields, **filter_fields(fields)}
        end = self._store.info().cursor
        return self._change(id, lambda found: with_changes(found, changes, end))

    def rotate(self, id: str, overlap: float) -> Webhook:
        """Create a new secret for a webhook; for callbacks also the first one."""
        info = self._store.info()
        if id == CALLBACKS:
            repository.add(self._store, callback_webhook(self._tenant, info.cursor, info.now))
        return self._change(
            id,
            lambda found: msgspec.structs.replace(
                found, secrets=signing.rotate(found.secrets, info.now, overlap)
            ),
        )

    def delete(self, id: str) -> None:
        """Delete a webhook."""
        if id == CALLBACKS:
            raise Conflict("callbacks cannot be deleted: deactivate them with `active: false`")
        if not repository.delete(self._store, self._tenant, id):
            raise _not_found(id)

    def _change(self, id: str, update: Callable[[Webhook], Webhook]) -> Webhook:
        return _required(repository.change(self._store, self._tenant, id, update), id)

    def _require_url(self, url: str) -> None:
        require_url("url", url)
        try:
            DestinationPolicy(self._settings).require_url(url)
        except DestinationRefused as error:
            raise InvalidOption(f"url: {error}") from None

    # --- deliveries ---

    def send_test(self, id: str) -> str:
        """Enqueue a test message."""
        webhook = self.find(id)
        if webhook.url is None:
            raise Conflict(
                "callbacks have no URL of their own: enqueue a job with a `callback_url`"
            )
        message, now = f"msg_{new_delivery_id()}", self._store.now()
        job = delivery.test_delivery(webhook, message, now, delivery_groups(self._settings).count)
        [queued] = delivery.open_queue(self._store).enqueue_many([job])
        return queued.id

    def deliveries(
        self, id: str, states: Iterable[State] | None, cursor: str | None, limit: int
    ) -> DeliveryPage:
        """Deliveries, made or pending. Reads through those of all tenants."""
        webhook = self.find(id)
        job_filter = Filter(
            states=frozenset(states) if states is not None else frozenset(State),
            text=_payload_prefix(webhook),
        )
        page = read_page(self._store, QUEUE, job_filter, cursor, limit, JobOrder.CLAIM)
        # Another delivery may also contain this text.
        own = [job for job in page.jobs if _belongs(job, webhook)]
        return DeliveryPage([_delivery_document(job) for job in own], page.cursor)

    def redeliver(self, id: str, delivery_id: str, by: str) -> None:
        """Redrive a delivery from the DLQ."""
        webhook = self.find(id)
        [job] = self._store.get(QUEUE, [delivery_id])
        if job is None or not _belongs(job, webhook):
            raise NotFound(f"webhook {id!r} has no delivery {delivery_id!r}")
        [verdict] = self._store.apply(QUEUE, [redrive(delivery_id, by=by)])
        if not verdict.applied:
            raise WrongState("redrive", delivery_id, verdict.state or job.state)


def webhook_document(webhook: Webhook, *, with_secret: bool = False) -> WebhookDocument:
    """A webhook as its tenant can see it."""
    return WebhookDocument(
        id=webhook.id,
        url=webhook.url,
        acts=_sorted(webhook.acts),
        states=_sorted(webhook.states),
        queues=_sorted(webhook.queues),
        kinds=_sorted(webhook.kinds),
        active=webhook.active,
        note=webhook.note,
        created_at=webhook.created_at,
        secret=webhook.secrets[0].text if with_secret else UNSET,
    )


def _sorted(values: frozenset[Any] | None) -> list[Any] | None:
    return sorted(values) if values is not None else None


def _required(found: Webhook | None, id: str) -> Webhook:
    if found is None:
        raise _not_found(id)
    return found


def _not_found(id: str) -> NotFound:
    return NotFound(f"there is no webhook {id!r}")


def _payload_prefix(webhook: Webhook) -> str:
    """The start of the payloads of its deliveries."""
    empty = Delivery(webhook.tenant, webhook.id, msgspec.Raw(b"0"))
    return msgspec.json.encode(empty).decode().removesuffix(',"body":0}')


def _belongs(job: Record, webhook: Webhook) -> bool:
    found = _read_delivery(job.payload)
    return (found.tenant, found.webhook) == (webhook.tenant, webhook.id)


def _delivery_document(job: Record) -> DeliveryDocument:
    body = _read_delivery(job.payload).body
    result = _decode_result(job.result) if job.result is not None else None
    return DeliveryDocument(
        id=job.id,
        state=job.state,
        type=_read_type(body).type,
        attempts=job.attempts,
        created_at=job.created_at,
        next_at=job.run_at,
        finished_at=job.finished_at,
        status=result.status if result is not None else None,
        history=[attempt_document(ended) for ended in job.history],
        body=body,
    )
