"""Limits concurrent deliveries per tenant and receiver, by a few groups for each tenant."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import msgspec

from ackline.service.webhooks.settings import WebhookSettings

TENANT_SHARE = 4
"""A tenant gets at most one of this many concurrent deliveries."""


class DeliveryGroups(msgspec.Struct, frozen=True):
    """The number of delivery groups per tenant, and the concurrency of each."""

    count: int
    concurrency: int


def delivery_groups(settings: WebhookSettings) -> DeliveryGroups:
    """As many groups as fit into a tenant's share.

    >>> delivery_groups(WebhookSettings(concurrency=64, receiver_concurrency=4))
    DeliveryGroups(count=4, concurrency=4)
    """
    share = max(1, settings.concurrency // TENANT_SHARE)
    concurrency = min(settings.receiver_concurrency, share)
    return DeliveryGroups(share // concurrency, concurrency)


def group_for(tenant: str, url: str, count: int) -> str:
    """The group of a delivery; all deliveries to one receiver are in the same group.

    If every receiver had its own group, a tenant with many receivers could use all concurrency.
    """
    parts = urlsplit(url)
    receiver = (parts.scheme, parts.hostname, parts.port)
    number = int.from_bytes(_digest(receiver)[:8]) % count
    return "to_" + _digest((tenant, number)).hex()[:32]


def _digest(value: object) -> bytes:
    return hashlib.sha256(msgspec.json.encode(value)).digest()
