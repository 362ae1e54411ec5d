"""Reads the journal and enqueues deliveries: each event that matches a webhook, exactly once."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ackline.core.errors import EventsDropped, ReaderMoved
from ackline.core.events import Event, Events, read_cursor
from ackline.core.job import QueueKey
from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop
from ackline.queue import JournalReader, NewJob, Queue, ReaderInfo
from ackline.queue.journal.reader import registered_readers
from ackline.queue.metadata import callbacks
from ackline.service.auth.credentials import SERVICE_TENANT
from ackline.service.webhooks import delivery, repository
from ackline.service.webhooks.delivery import Delivery
from ackline.service.webhooks.webhook import CALLBACKS, Webhook, callback_webhook
from ackline.stores.contract import Store, find_each_job

logger = logging.getLogger("ackline.service")

POLL_EVERY = 0.25
"""Seconds between two polls of the journal."""

CALLBACK_CHECK_EVERY = 2.0
"""Seconds after which to check again whether a tenant's jobs have callbacks."""

CALLBACK_CHECKS_PER_SECOND = 50
"""Maximum number of such checks per second; with more tenants, each is checked less often."""

REFRESH_EVERY = 1.0
"""Seconds after which to check although the journal has not grown."""

SCAN_PAGE, MAX_SCAN_PAGES = 1000, 5
"""Events of a tenant per page, and maximum number of pages, to find the queues to read."""

PAGE = 500
READER = "webhooks"
_UNKNOWN = object()


class Dispatcher(MaintenanceLoop):
    """Reads the journals of queues with webhooks or callbacks, and enqueues deliveries.

    The deliveries of a page are stored before the reader's position is saved. If that fails, the
    page is read again; its deliveries, whose ids are derived from the events, exist already.
    """

    name = "dispatcher"
    counters = ("dispatched",)

    def __init__(
        self, store: Store, on_needed: Callable[[], None] = lambda: None, group_count: int = 1
    ) -> None:
        super().__init__([], POLL_EVERY)
        self._store = store
        self._group_count = group_count
        self._on_needed = on_needed
        self._deliveries = delivery.open_queue(store)
        self._all_webhooks = repository.WebhookCache(store)
        self._webhooks: Mapping[str, list[Webhook]] = {}
        self._callbacks: dict[str, str] = {}
        self._checked_at: dict[str, float] = {}
        self._readers: dict[QueueKey, JournalReader | None] = {}
        self._unread: set[QueueKey] = set()
        """Queues whose journal may have unread events."""
        self._known: frozenset[QueueKey] = frozenset()
        self._scanned_to: dict[str, str] = {}
        """The cursor up to which a tenant's journal was scanned for such queues."""
        self._end: str | None = None
        self._refresh_at = 0.0

    def due(self) -> Mapping[Queue[Any, Any], float]:
        """The queues with events that may match a webhook or callback."""
        end, now = self._store.info().cursor, time.monotonic()
        if end != self._end or now >= self._refresh_at:
            self._find_unread(end)
            # Changed and deleted webhooks are not in the journal.
            self._end, self._refresh_at = end, now + REFRESH_EVERY
        return {queue: 0.0 for queue in self.queues if queue.key in self._unread}

    def _find_unread(self, end: str) -> None:
        keys = frozenset(queue.key for queue in self.queues)
        webhooks = self._all_webhooks.read()
        if webhooks:
            self._on_needed()
        tenants = {
            tenant
            for tenant in {key.tenant for key in keys}
            if self._has_receivers(tenant, webhooks)
        }
        if webhooks != self._webhooks:
            self._webhooks = webhooks
            self._scanned_to.clear()
            # Readers that no webhook needs any more are removed.
            self._unread |= {key for key in keys if self._readers.get(key, _UNKNOWN) is not None}
        self._unread |= keys - self._known
        self._unread &= keys
        self._known = keys
        for tenant in tenants:
            if tenant in self._scanned_to:
                self._scan_tenant(tenant, end)
            else:
                self._mark_all_unread(tenant, end)
        for tenant in self._scanned_to.keys() - tenants:
            del self._scanned_to[tenant]

    def _scan_tenant(self, tenant: str, end: str) -> None:
        """Find the queues of a tenant with new events."""
        for _ in range(MAX_SCAN_PAGES):
            try:
                page = Events.from_sequence(
                    self._store.events(None, self._scanned_to[tenant], SCAN_PAGE, tenant=tenant)
                )
            except EventsDropped:
                break
            if page.cursor is None:
                return
            self._unread |= {batch.queue for batch in page.batches}
            self._scanned_to[tenant] = page.cursor
            if len(page) < SCAN_PAGE:
                return
        self._mark_all_unread(tenant, end)

    def _mark_all_unread(self, tenant: str, end: str) -> None:
        self._unread |= {key for key in self._known if key.tenant == tenant}
        self._scanned_to[tenant] = end

    def _has_receivers(self, tenant: str, webhooks: Mapping[str, list[Webhook]]) -> bool:
        try:
            return bool(webhooks.get(tenant)) or self._callbacks_since(tenant) is not None
        except ValueError:
            # An invalid key must only affect the queues of its tenant.
            return True

    def maintain(self, queue: Queue[Any, Any]) -> float:
        since = None if queue.key.tenant == SERVICE_TENANT else self._needed_since(queue.key)
        if since is None:
            if queue.key.tenant != SERVICE_TENANT:
                self._stop_reading(queue.key)
            self._unread.discard(queue.key)
            return AFTER_INTERVAL
        reader = self._reader(queue.key, since)
        try:
            events = reader.read(PAGE)
        except EventsDropped as error:
            logger.warning("webhooks missed events of %s: %s", queue.key, error)
            reader.cursor = error.cursor
            return 0.0
        if events:
            self._enqueue_deliveries(queue.key, events, reader)
        if len(events) == PAGE or queue.key not in self._readers:
            return 0.0
        self._unread.discard(queue.key)
        return AFTER_INTERVAL

    def _enqueue_deliveries(
        self, key: QueueKey, events: list[Event], reader: JournalReader
    ) -> None:
        # Until it is saved, the reader is past events that may have no deliveries yet.
        del self._readers[key]
        deliveries = self._deliveries_for(key, events)
        self._deliveries.enqueue_many(deliveries)
        self.count("dispatched", len(deliveries))
        with contextlib.suppress(ReaderMoved):
            # If another process did the same at the same time, continue at its position.
            reader.save()
            self._readers[key] = reader

    # --- which events are needed ---

    def _needed_since(self, key: QueueKey) -> str | None:
        """The cursor after which events of a queue may match; None if none can."""
        cursors = [
            webhook.since_for(key.name)
            for webhook in self._webhooks.get(key.tenant, ())
            if webhook.active and webhook.url is not None
            and (webhook.queues is None or key.name in webhook.queues)
        ]  # fmt: skip
        if (since := self._callbacks_since(key.tenant)) is not None:
            cursors.append(since)
        return min(cursors, key=read_cursor, default=None)

    def _callbacks_since(self, tenant: str) -> str | None:
        known = self._callbacks.get(tenant)
        # With many tenants, their keys are not all read every second.
        interval = max(CALLBACK_CHECK_EVERY, len(self._checked_at) / CALLBACK_CHECKS_PER_SECOND)
        if known is not None or time.monotonic() < self._checked_at.get(tenant, 0.0) + interval:
            return known
        found = callbacks.callbacks_since(self._store, tenant)
        self._checked_at[tenant] = time.monotonic()
        if found is not None:
            info = self._store.info()
            # The cursor can only be beyond the journal's end in a restored store.
            found = min(found, info.cursor, key=read_cursor)
            self._callbacks[tenant] = found
            repository.add(self._store, callback_webhook(tenant, found, info.now))
        return found

    # --- reading ---

    def _reader(self, key: QueueKey, since: str) -> JournalReader:
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = JournalReader(self._store, key, READER)
            if not self._has_position(key):
                reader.cursor = since
        return reader

    def _has_position(self, key: QueueKey) -> bool:
        """Whether a valid position is saved; one beyond the end would miss events."""
        position = _saved_position(self._store, key)
        if position is None:
            return False
        valid = read_cursor(position.cursor) <= read_cursor(self._store.info().cursor)
        if not valid:
            logger.warning(
                "the saved cursor %s of the webhooks of %s is beyond the end of the journal "
                "(restored store?): starting from their creation",
                position.cursor,
                key,
            )
        return valid

    def _stop_reading(self, key: QueueKey) -> None:
        """Remove the reader, so that the journal keeps no events for it."""
        reader = self._readers.get(key)
        if key in self._readers and reader is None:
            return
        if _saved_position(self._store, key) is not None:
            (reader or JournalReader(self._store, key, READER)).forget()
        self._readers[key] = None

    # --- the deliveries of events ---

    def _deliveries_for(self, key: QueueKey, events: list[Event]) -> list[NewJob[Delivery]]:
        # Read after the events, so that every webhook that existed when they happened is included.
        webhooks = repository.list_webhooks(self._store, key.tenant)
        deliveries = [
            delivery.event_delivery(webhook, event, self._group_count)
            for event in events
            for webhook in webhooks
            if webhook.matches(event)
        ]
        callback = next((one for one in webhooks if one.id == CALLBACKS and one.active), None)
        if callback is not None:
            finished = [event for event in events if event.callback_url is not None]
            deliveries += self._callbacks_for(callback, key, finished)
        return deliveries

    def _callbacks_for(
        self, callback: Webhook, key: QueueKey, events: list[Event]
    ) -> Iterable[NewJob[Delivery]]:
        jobs = find_each_job(self._store, key, [event.id for event in events])
        for event, job in zip(events, jobs, strict=True):
            yield delivery.callback_delivery(callback, event, job, self._group_count)


def _saved_position(store: Store, key: QueueKey) -> ReaderInfo | None:
    return next((info for info in registered_readers(store, key) if info.name == READER), None)
