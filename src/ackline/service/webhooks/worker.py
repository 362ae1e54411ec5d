"""Makes the deliveries: a worker like any other, whose handler calls the receiver."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator

import msgspec

from ackline.core.outcome import Cancel, Dead, Done, Outcome, Retry
from ackline.queue import Job
from ackline.service.webhooks import delivery, repository, signing
from ackline.service.webhooks.client import Unreachable, WebhookClient, WebhookResponse
from ackline.service.webhooks.concurrency import delivery_groups
from ackline.service.webhooks.delivery import Delivery
from ackline.service.webhooks.destinations import DestinationRefused, Resolve, Resolver
from ackline.service.webhooks.settings import WebhookSettings
from ackline.service.webhooks.webhook import CALLBACKS, Webhook
from ackline.stores.contract import Store
from ackline.worker import Worker

logger = logging.getLogger("ackline.service")

MAX_RETRY_AFTER = 3600.0
"""How long a receiver may ask to be left alone, in seconds."""

LEASE = 10.0
"""Seconds after which another process takes over from one that died; heartbeats hold it longer."""

HTTP_410 = 410
USER_AGENT = "ackline"


class DeliveryResult(msgspec.Struct, frozen=True):
    """The result of a delivery: what the receiver answered, and how soon."""

    status: int
    seconds: float


class DeliveryWorker:
    """Delivers from its start to its stop."""

    def __init__(
        self, store: Store, settings: WebhookSettings, resolver: Resolve | None = None
    ) -> None:
        self._store = store
        self._settings = settings
        self._resolver = resolver or Resolver()
        self._senders: AsyncGenerator[WebhookClient, None] | None = None
        self._sender: WebhookClient | None = None
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Start, unless it has started already."""
        with self._lock:
            if self._worker is not None or self._stopped:
                return
            settings = self._settings
            queue = delivery.open_queue(self._store)
            queue.handler(
                delivery.KIND,
                backoff=settings.backoff,
                max_attempts=len(settings.backoff) + 1,
                lease=LEASE,
                result_ttl=settings.keep_deliveries,
            )(self._deliver)
            queue.configure(group_limit=delivery_groups(settings).concurrency, by="ackline serve")
            worker = Worker(
                queue,
                concurrency=settings.concurrency,
                grace=settings.timeout,
                maintenance=False,
            )
            worker.start()
            self._worker = worker

    def stop(self) -> None:
        """Stop after what is in progress; the rest stays in the queue."""
        with self._lock:
            self._stopped = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    async def _deliver(self, job: Job[Delivery]) -> Outcome:
        webhook = await asyncio.to_thread(
            repository.find, self._store, job.payload.tenant, job.payload.webhook
        )
        if webhook is None or not webhook.active:
            return Cancel("the webhook was deleted or turned off")
        url = job.payload.url or webhook.url
        assert url is not None
        began = time.monotonic()
        try:
            answer = await self._send(webhook, url, job)
        except DestinationRefused as error:
            return Dead(f"not sent: {error}")
        except Unreachable as error:
            return Retry(reason=str(error))
        if answer.status == HTTP_410 and webhook.id != CALLBACKS:
            await asyncio.to_thread(self._deactivate, webhook)
        return outcome_for(answer, time.monotonic() - began)

    async def _send(self, webhook: Webhook, url: str, job: Job[Delivery]) -> WebhookResponse:
        if self._sender is None:
            self._senders = self._open_client()
            self._sender = await anext(self._senders)
        body = bytes(job.payload.body)
        headers = {
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            **signing.headers(job.id, time.time(), body, webhook.secrets),
        }
        return await self._sender.post(url, headers, body)

    async def _open_client(self) -> AsyncGenerator[WebhookClient, None]:
        """A sender that the worker's event loop closes when it ends."""
        sender = WebhookClient(self._settings, self._resolver)
        try:
            yield sender
        finally:
            await sender.close()

    def _deactivate(self, webhook: Webhook) -> None:
        logger.warning("webhook %s was turned off: its receiver answered 410 Gone", webhook.id)
        repository.change(
            self._store,
            webhook.tenant,
            webhook.id,
            lambda found: msgspec.structs.replace(found, active=False),
        )


def outcome_for(answer: WebhookResponse, seconds: float) -> Outcome:
    """What the receiver's answer means for a delivery."""
    status = answer.status
    if 200 <= status < 300:
        return Done(msgspec.to_builtins(DeliveryResult(status, round(seconds, 4))))
    if status == HTTP_410:
        return Dead("the receiver answered 410: it wants no more")
    if 300 <= status < 400:
        return Retry(reason=f"the receiver answered {status}: redirects are not followed")
    pause = answer.retry_after
    if status not in (429, 503) or pause is None:
        return Retry(reason=f"the receiver answered {status}")
    return Retry(min(pause, MAX_RETRY_AFTER), f"the receiver answered {status}")
