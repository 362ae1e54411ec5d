"""Makes the deliveries: a worker whose handler calls the receiver."""

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
"""Maximum seconds of a receiver's `Retry-After`."""

LEASE = 10.0
"""The lease of a delivery, extended by heartbeats; after it, another process takes over."""

HTTP_410 = 410
USER_AGENT = "ackline"


class DeliveryResult(msgspec.Struct, frozen=True):
    """The result of a delivery: the receiver's status, and the duration."""

    status: int
    seconds: float


class DeliveryWorker:
    """Runs the deliveries of this process."""

    def __init__(
        self, store: Store, settings: WebhookSettings, resolver: Resolve | None = None
    ) -> None:
        self._store = store
        self._settings = settings
        self._resolver = resolver or Resolver()
        self._client_context: AsyncGenerator[WebhookClient, None] | None = None
        self._client: WebhookClient | None = None
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Start, unless already started."""
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
                # Receivers that fail are not failures of this service; the API shows them.
                log_jobs=False,
            )
            worker.start()
            self._worker = worker

    def stop(self) -> None:
        """Stop after the deliveries in progress; the others stay in the queue."""
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
            return Cancel("the webhook was deleted or deactivated")
        url = job.payload.url or webhook.url
        assert url is not None
        started_at = time.monotonic()
        try:
            response = await self._send(webhook, url, job)
        except DestinationRefused as error:
            return Dead(f"not sent: {error}")
        except Unreachable as error:
            return Retry(reason=str(error))
        if response.status == HTTP_410 and webhook.id != CALLBACKS:
            await asyncio.to_thread(self._deactivate, webhook)
        return outcome_for(response, time.monotonic() - started_at)

    async def _send(self, webhook: Webhook, url: str, job: Job[Delivery]) -> WebhookResponse:
        if self._client is None:
            self._client_context = self._open_client()
            self._client = await anext(self._client_context)
        body = bytes(job.payload.body)
        headers = {
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            **signing.headers(job.id, time.time(), body, webhook.secrets),
        }
        return await self._client.post(url, headers, body)

    async def _open_client(self) -> AsyncGenerator[WebhookClient, None]:
        """A client that the worker's event loop closes when it ends."""
        client = WebhookClient(self._settings, self._resolver)
        try:
            yield client
        finally:
            await client.close()

    def _deactivate(self, webhook: Webhook) -> None:
        logger.warning("webhook %s was deactivated: its receiver answered 410 Gone", webhook.id)
        repository.change(
            self._store,
            webhook.tenant,
            webhook.id,
            lambda found: msgspec.structs.replace(found, active=False),
        )


def outcome_for(response: WebhookResponse, seconds: float) -> Outcome:
    """The outcome of a delivery, by the receiver's response."""
    status = response.status
    if 200 <= status < 300:
        return Done(msgspec.to_builtins(DeliveryResult(status, round(seconds, 4))))
    if status == HTTP_410:
        return Dead("the receiver answered 410 Gone: it wants no more messages")
    if 300 <= status < 400:
        return Retry(reason=f"the receiver answered {status}: redirects are not followed")
    retry_after = response.retry_after
    if status not in (429, 503) or retry_after is None:
        return Retry(reason=f"the receiver answered {status}")
    return Retry(min(retry_after, MAX_RETRY_AFTER), f"the receiver answered {status}")
