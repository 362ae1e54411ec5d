"""What a tenant's admins do with its webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.errors import InvalidOption, WrongState
from ackline.ids import new_id as new_delivery_id
from ackline.job import Record, State
from ackline.lifecycle import redrive
from ackline.limits import require_url
from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.documents import attempt_document
from ackline.service.paging import Order, read_page
from ackline.service.problems import Conflict, NotFound
from ackline.service.webhooks import book, delivery, signing
from ackline.service.webhooks.addresses import Allowed, NotAllowed
from ackline.service.webhooks.deliverer import Made
from ackline.service.webhooks.delivery import QUEUE, Delivery
from ackline.service.webhooks.lanes import lanes_by
from ackline.service.webhooks.webhook import (
    CALLBACKS,
    Webhook,
    altered,
    callbacks_of,
    filters,
    new_webhook,
)
from ackline.stores.base import Filter

_read_delivery = msgspec.json.Decoder(Delivery).decode
_read_type = msgspec.json.Decoder(delivery.Body).decode
_read_made = msgspec.json.Decoder(Made).decode


class DeliveryPage(msgspec.Struct, frozen=True):
    """Deliveries as plain values, and where the next page begins."""

    deliveries: list[dict[str, Any]]
    cursor: str | None


class Desk:
    """One caller's access to its tenant's webhooks; it needs to be an admin of all queues."""

    def __init__(self, caller: Caller) -> None:
        caller.require(Access.WEBHOOKS)
        self._tenant = caller.tenant
        self._call = caller.runtime.call
        self._slowly = caller.slowly
        self._store = caller.runtime.store
        self._settings = caller.runtime.settings.webhooks

    # --- webhooks ---

    async def all(self) -> list[Webhook]:
        """All webhooks of the tenant."""
        return await self._call(book.read_of, self._store, self._tenant)

    async def find(self, id: str) -> Webhook:
        """One webhook, or `NotFound`."""
        return _required(await self._call(book.find, self._store, self._tenant, id), id)

    async def make(self, url: str, fields: dict[str, Any]) -> Webhook:
        """Create a webhook with a secret of its own."""
        self._require_url(url)
        existing = await self.all()
        if len(existing) >= self._settings.most:
            raise Conflict(f"{len(existing)} webhooks are the limit: delete one first")
        info = await self._call(self._store.info)
        webhook = new_webhook(self._tenant, url, info, note=fields["note"], **filters(fields))
        await self._call(book.add, self._store, webhook)
        return webhook

    async def change(self, id: str, fields: dict[str, Any]) -> Webhook:
        """Change some fields of a webhook."""
        if id == CALLBACKS and fields.keys() - {"active", "note"}:
            raise InvalidOption("only active and note of the callbacks can be changed")
        if "url" in fields:
            self._require_url(fields["url"])
        changes = {**fields, **filters(fields)}
        end = (await self._call(self._store.info)).cursor
        return await self._change(id, lambda found: altered(found, changes, end))

    async def rotate(self, id: str, overlap: float) -> Webhook:
        """Give a webhook a new secret; that of the callbacks is made if there is none yet."""
        info = await self._call(self._store.info)
        if id == CALLBACKS:
            own = callbacks_of(self._tenant, info.cursor, info.now)
            await self._call(book.add, self._store, own)
        return await self._change(
            id,
            lambda found: msgspec.structs.replace(
                found, secrets=signing.rotated(found.secrets, info.now, overlap)
            ),
        )

    async def delete(self, id: str) -> None:
        """Delete a webhook."""
        if id == CALLBACKS:
            raise Conflict("the callbacks cannot be deleted: turn them off with `active: false`")
        if not await self._call(book.delete, self._store, self._tenant, id):
            raise _absent(id)

    async def _change(self, id: str, alter: Any) -> Webhook:
        return _required(await self._call(book.change, self._store, self._tenant, id, alter), id)

    def _require_url(self, url: str) -> None:
        require_url("url", url)
        try:
            Allowed(self._settings).require_url(url)
        except NotAllowed as error:
            raise InvalidOption(f"url: {error}") from None

    # --- deliveries ---

    async def send_test(self, id: str) -> str:
        """Enqueue a message about no event."""
        webhook = await self.find(id)
        if webhook.url is None:
            raise Conflict("callbacks have no URL of their own: enqueue a job with a callback_url")
        info = await self._call(self._store.info)
        message = f"msg_{new_delivery_id()}"
        job = delivery.of_test(webhook, message, info.now, lanes_by(self._settings).count)
        queue = delivery.open_queue(self._store)
        [queued] = await self._call(queue.enqueue_many, [job])
        return queued.id

    async def deliveries(
        self, id: str, states: Iterable[State] | None, cursor: str | None, limit: int
    ) -> DeliveryPage:
        """Deliveries that were made or will be."""
        webhook = await self.find(id)
        which = Filter(
            states=frozenset(states) if states is not None else frozenset(State),
            text=_written(webhook),
        )
        # It goes through the deliveries of all tenants.
        page = await self._slowly(read_page, self._store, QUEUE, which, cursor, limit, Order.LINE)
        # The text may also occur in another delivery.
        own = [job for job in page.jobs if _belongs(job, webhook)]
        return DeliveryPage([_document(job) for job in own], page.cursor)

    async def redeliver(self, id: str, delivery_id: str) -> None:
        """Take a delivery out of the DLQ."""
        webhook = await self.find(id)
        [job] = await self._call(self._store.get, QUEUE, [delivery_id])
        if job is None or not _belongs(job, webhook):
            raise NotFound(f"webhook {id!r} has no delivery {delivery_id!r}")
        [verdict] = await self._call(self._store.apply, QUEUE, [redrive(delivery_id, by="http")])
        if not verdict.applied:
            raise WrongState("redrive", delivery_id, verdict.state or job.state)


def _required(found: Webhook | None, id: str) -> Webhook:
    if found is None:
        raise _absent(id)
    return found


def _absent(id: str) -> NotFound:
    return NotFound(f"there is no webhook {id!r}")


def _written(webhook: Webhook) -> str:
    """The text that payloads of its deliveries begin with."""
    empty = Delivery(webhook.tenant, webhook.id, msgspec.Raw(b"0"))
    return msgspec.json.encode(empty).decode().removesuffix(',"body":0}')


def _belongs(job: Record, webhook: Webhook) -> bool:
    found = _read_delivery(job.payload)
    return (found.tenant, found.webhook) == (webhook.tenant, webhook.id)


def _document(job: Record) -> dict[str, Any]:
    body = _read_delivery(job.payload).body
    made = _read_made(job.result) if job.result is not None else None
    return {
        "id": job.id,
        "state": job.state,
        "type": _read_type(body).type,
        "attempts": job.attempts,
        "created_at": job.created_at,
        "next_at": job.run_at,
        "finished_at": job.finished_at,
        "status": made.status if made is not None else None,
        "history": [attempt_document(ended) for ended in job.history],
        "body": body,
    }
