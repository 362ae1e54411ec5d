"""How tenants share the places for deliveries: each has few lanes, whatever URLs it names."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import msgspec

from ackline.service.webhooks.settings import WebhookSettings

TENANT_SHARE = 4
"""One tenant has at most one in this many of the places for deliveries."""


class DeliveryGroups(msgspec.Struct, frozen=True):
    """How many lanes each tenant has, and how many deliveries go at once in one of them."""

    count: int
    concurrency: int


def delivery_groups(settings: WebhookSettings) -> DeliveryGroups:
    """As many lanes as fit into a tenant's share.

    >>> delivery_groups(WebhookSettings(concurrency=64, at_once=4))
    Lanes(count=4, width=4)
    """
    share = max(1, settings.concurrency // TENANT_SHARE)
    width = min(settings.receiver_concurrency, share)
    return DeliveryGroups(share // width, width)


def group_for(tenant: str, url: str, count: int) -> str:
    """The group of a delivery: all that go to one receiver are in the same lane.

    If each receiver were a group of its own, a tenant that names many could hold all places.
    """
    parts = urlsplit(url)
    receiver = (parts.scheme, parts.hostname, parts.port)
    lane = int.from_bytes(_digest(receiver)[:8]) % count
    return "to_" + _digest((tenant, lane)).hex()[:32]


def _digest(words: object) -> bytes:
    return hashlib.sha256(msgspec.json.encode(words)).digest()
