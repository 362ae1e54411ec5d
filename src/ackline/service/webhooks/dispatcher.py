"""From the journal to deliveries: each event that is wanted, once, and none left out."""

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
"""Seconds between two looks into the journals."""

CALLBACK_CHECK_EVERY = 2.0
"""Seconds after which to look again whether a tenant's jobs want callbacks."""

CALLBACK_CHECKS_PER_SECOND = 50
"""How many tenants at most are asked about in a second; with more, each is asked less often."""

REFRESH_EVERY = 1.0
"""Seconds after which to look although the journal has not grown."""

SCAN_PAGE, MAX_SCAN_PAGES = 1000, 5
"""Events of a tenant that are looked at together, and how often, to find the queues to read."""

PAGE = 500
READER = "webhooks"
_UNKNOWN = object()


class Dispatcher(MaintenanceLoop):
    """Reads the journals of queues with webhooks or callbacks, and enqueues deliveries.

    A page's deliveries are stored before the reader's place is saved. If that is never saved, the
    page is read again; its deliveries, whose ids follow from the events, exist already.
    """

    name = "dispatcher"
    counters = ("dispatched",)

    def __init__(
        self, store: Store, on_wanted: Callable[[], None] = lambda: None, lanes: int = 1
    ) -> None:
        super().__init__([], POLL_EVERY)
        self._store = store
        self._group_count = lanes
        self._on_wanted = on_wanted
        self._deliveries = delivery.open_queue(store)
        self._all_webhooks = repository.WebhookCache(store)
        self._webhooks: Mapping[str, list[Webhook]] = {}
        self._callbacks: dict[str, str] = {}
        self._asked_at: dict[str, float] = {}
        self._readers: dict[QueueKey, JournalReader | None] = {}
        self._unread: set[QueueKey] = set()
        """The queues whose journal may have something for webhooks."""
        self._known: frozenset[QueueKey] = frozenset()
        self._looked_through: dict[str, str] = {}
        """Up to where the journals of a tenant were looked through for such queues."""
        self._end: str | None = None
        self._look_again = 0.0

    def due(self) -> Mapping[Queue[Any, Any], float]:
        """The queues in which something may have happened that a webhook or callback wants."""
        end, now = self._store.info().cursor, time.monotonic()
        if end != self._end or now >= self._look_again:
            self._find_unread(end)
            # A webhook that is changed, or deleted, is not in the journal.
            self._end, self._look_again = end, now + REFRESH_EVERY
        return {queue: 0.0 for queue in self.queues if queue.key in self._unread}

    def _find_unread(self, end: str) -> None:
        keys = frozenset(queue.key for queue in self.queues)
        webhooks = self._all_webhooks.read()
        if webhooks:
            self._on_wanted()
        wanting = {
            tenant for tenant in {key.tenant for key in keys} if self._wants(tenant, webhooks)
        }
        if webhooks != self._webhooks:
            self._webhooks = webhooks
            self._looked_through.clear()
            # Those that are still read for nobody are given up.
            self._unread |= {key for key in keys if self._readers.get(key, _UNKNOWN) is not None}
        self._unread |= keys - self._known
        self._unread &= keys
        self._known = keys
        for tenant in wanting:
            if tenant in self._looked_through:
                self._scan_tenant(tenant, end)
            else:
                self._mark_all_unread(tenant, end)
        for tenant in self._looked_through.keys() - wanting:
            del self._looked_through[tenant]

    def _scan_tenant(self, tenant: str, end: str) -> None:
        """Find the queues of a tenant in which something has happened since the last look."""
        for _ in range(MAX_SCAN_PAGES):
            try:
                page = Events.from_sequence(
                    self._store.events(None, self._looked_through[tenant], SCAN_PAGE, tenant=tenant)
                )
            except EventsDropped:
                break
            if page.cursor is None:
                return
            self._unread |= {batch.queue for batch in page.batches}
            self._looked_through[tenant] = page.cursor
            if len(page) < SCAN_PAGE:
                return
        self._mark_all_unread(tenant, end)

    def _mark_all_unread(self, tenant: str, end: str) -> None:
        self._unread |= {key for key in self._known if key.tenant == tenant}
        self._looked_through[tenant] = end

    def _wants(self, tenant: str, webhooks: Mapping[str, list[Webhook]]) -> bool:
        try:
            return bool(webhooks.get(tenant)) or self._callbacks_since(tenant) is not None
        except ValueError:
            # A note that cannot be read concerns the queues of its tenant, and no others.
            return True

    def maintain(self, queue: Queue[Any, Any]) -> float:
        since = None if queue.key.tenant == SERVICE_TENANT else self._wanted_since(queue.key)
        if since is None:
            if queue.key.tenant != SERVICE_TENANT:
                self._stop_reading(queue.key)
            self._unread.discard(queue.key)
            return AFTER_INTERVAL
        reader = self._reader(queue.key, since)
        try:
            events = reader.read(PAGE)
        except EventsDropped as error:
            logger.warning("webhooks missed some events of %s: %s", queue.key, error)
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
        # Until it has saved, the reader is past events that may have no deliveries yet.
        del self._readers[key]
        deliveries = self._deliveries_for(key, events)
        self._deliveries.enqueue_many(deliveries)
        self.count("dispatched", len(deliveries))
        with contextlib.suppress(ReaderMoved):
            # If another process did the same at the same moment, continue where it is.
            reader.save()
            self._readers[key] = reader

    # --- which events are wanted ---

    def _wanted_since(self, key: QueueKey) -> str | None:
        """The cursor after which events of a queue may be wanted; None if none are."""
        wanted = [
            webhook.since_for(key.name)
            for webhook in self._webhooks.get(key.tenant, ())
            if webhook.active and webhook.url is not None
            and (webhook.queues is None or key.name in webhook.queues)
        ]  # fmt: skip
        if (since := self._callbacks_since(key.tenant)) is not None:
            wanted.append(since)
        return min(wanted, key=read_cursor, default=None)

    def _callbacks_since(self, tenant: str) -> str | None:
        known = self._callbacks.get(tenant)
        # However many tenants there are, their notes are not all read every second.
        pause = max(CALLBACK_CHECK_EVERY, len(self._asked_at) / CALLBACK_CHECKS_PER_SECOND)
        if known is not None or time.monotonic() < self._asked_at.get(tenant, 0.0) + pause:
            return known
        found = callbacks.callbacks_since(self._store, tenant)
        self._asked_at[tenant] = time.monotonic()
        if found is not None:
            info = self._store.info()
            # A note can only be past the journal's end in a store that was restored.
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
        """Whether a place is saved to go on from; past the journal's end it would miss events."""
        place = _saved_position(self._store, key)
        if place is None:
            return False
        kept = read_cursor(place.cursor) <= read_cursor(self._store.info().cursor)
        if not kept:
            logger.warning(
                "webhooks of %s had read up to %s, which the journal has not reached: they begin "
                "where they were made",
                key,
                place.cursor,
            )
        return kept

    def _stop_reading(self, key: QueueKey) -> None:
        """Give up the place in the journal, so that no events are kept for nobody."""
        reader = self._readers.get(key)
        if key in self._readers and reader is None:
            return
        if _saved_position(self._store, key) is not None:
            (reader or JournalReader(self._store, key, READER)).forget()
        self._readers[key] = None

    # --- the deliveries of events ---

    def _deliveries_for(self, key: QueueKey, events: list[Event]) -> list[NewJob[Delivery]]:
        # Read again, after the events: a webhook that existed when they happened is there now.
        webhooks = repository.list_webhooks(self._store, key.tenant)
        deliveries = [
            delivery.event_delivery(webhook, event, self._group_count)
            for event in events
            for webhook in webhooks
            if webhook.matches(event)
        ]
        own = next((one for one in webhooks if one.id == CALLBACKS and one.active), None)
        if own is not None:
            ends = [
                e for e in events if e.callback_url is not None and e.note != callbacks.RELAYED_NOTE
            ]
            deliveries += self._callbacks_for(own, key, ends)
        return deliveries

    def _callbacks_for(
        self, own: Webhook, key: QueueKey, events: list[Event]
    ) -> Iterable[NewJob[Delivery]]:
        jobs = find_each_job(self._store, key, [event.id for event in events])
        for event, job in zip(events, jobs, strict=True):
            yield delivery.callback_delivery(own, event, job, self._group_count)


def _saved_position(store: Store, key: QueueKey) -> ReaderInfo | None:
    return next((info for info in registered_readers(store, key) if info.name == READER), None)
