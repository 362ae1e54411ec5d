"""The stored webhooks of all tenants, in the service's own tenant."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec

from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.service.auth.credentials import SERVICE_TENANT
from ackline.service.webhooks.webhook import Webhook
from ackline.stores.contract import KeyValue, KeyWrite, Store, find_key

WEBHOOKS_PREFIX = reserved_key(KeyFamily.WEBHOOKS)
VERSION_KEY = reserved_key(KeyFamily.WEBHOOKS_CHANGED)
"""A key whose version changes with every change of a webhook."""
READ_LIMIT = 100_000

READ_ALL_EVERY = 30.0
"""Seconds after which all webhooks are read again: the store may have been restored."""

_BUMP_VERSION = KeyWrite(key=VERSION_KEY, value=b"")
_decode = msgspec.json.Decoder(Webhook).decode


class WebhookCache:
    """The webhooks of all tenants, read again only when one has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, list[Webhook]] = {}
        self._version: int | None = None
        self._read_at = -math.inf

    def read(self) -> dict[str, list[Webhook]]:
        """The webhooks by tenant, as of a moment ago."""
        version_entry, now = find_key(self._store, SERVICE_TENANT, VERSION_KEY), time.monotonic()
        version = version_entry.version if version_entry is not None else 0
        if version != self._version or now - self._read_at >= READ_ALL_EVERY:
            found: dict[str, list[Webhook]] = {}
            for entry in self._store.read_keys(SERVICE_TENANT, WEBHOOKS_PREFIX, READ_LIMIT):
                webhook = _decode(entry.value)
                found.setdefault(webhook.tenant, []).append(webhook)
            self._found, self._version, self._read_at = found, version, now
        return self._found


def list_webhooks(store: Store, tenant: str) -> list[Webhook]:
    """The webhooks of a tenant, the oldest first."""
    found = store.read_keys(SERVICE_TENANT, (*WEBHOOKS_PREFIX, tenant), READ_LIMIT)
    return sorted((_decode(entry.value) for entry in found), key=lambda webhook: webhook.created_at)


def find(store: Store, tenant: str, id: str) -> Webhook | None:
    """A webhook of a tenant, if it exists."""
    entry = _entry(store, tenant, id)
    return _decode(entry.value) if entry is not None else None


def add(store: Store, webhook: Webhook) -> bool:
    """Store a new webhook; False if its id exists."""
    return _write(store, webhook, 0)


def change(
    store: Store, tenant: str, id: str, update: Callable[[Webhook], Webhook]
) -> Webhook | None:
    """Update a webhook without losing concurrent changes; None if there is none."""
    while (entry := _entry(store, tenant, id)) is not None:
        changed = update(_decode(entry.value))
        if _write(store, changed, entry.version):
            return changed
    return None


def delete(store: Store, tenant: str, id: str) -> bool:
    """Delete a webhook; False if there was none."""
    entry = _entry(store, tenant, id)
    if entry is None:
        return False
    return store.write_keys(SERVICE_TENANT, [KeyWrite(key=entry.key, value=None), _BUMP_VERSION])


def _entry(store: Store, tenant: str, id: str) -> KeyValue | None:
    return find_key(store, SERVICE_TENANT, (*WEBHOOKS_PREFIX, tenant, id))


def _write(store: Store, webhook: Webhook, version: int) -> bool:
    path = (*WEBHOOKS_PREFIX, webhook.tenant, webhook.id)
    write = KeyWrite(key=path, value=msgspec.json.encode(webhook), version=version)
    return store.write_keys(SERVICE_TENANT, [write, _BUMP_VERSION])
