"""How tenants share the places for deliveries: each has few lanes, whatever URLs it names."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import msgspec

from ackline.service.webhooks.settings import WebhookSettings

SHARES = 4
"""One tenant has at most one in this many of the places for deliveries."""


class Lanes(msgspec.Struct, frozen=True):
    """How many lanes each tenant has, and how many deliveries go at once in one of them."""

    count: int
    width: int


def lanes_by(settings: WebhookSettings) -> Lanes:
    """As many lanes as fit into a tenant's share.

    >>> lanes_by(WebhookSettings(concurrency=64, at_once=4))
    Lanes(count=4, width=4)
    """
    share = max(1, settings.concurrency // SHARES)
    width = min(settings.at_once, share)
    return Lanes(share // width, width)


def lane_of(tenant: str, url: str, count: int) -> str:
    """The group of a delivery: all that go to one receiver are in the same lane.

    If each receiver were a group of its own, a tenant that names many could hold all places.
    """
    parts = urlsplit(url)
    receiver = (parts.scheme, parts.hostname, parts.port)
    lane = int.from_bytes(_digest(receiver)[:8]) % count
    return "to_" + _digest((tenant, lane)).hex()[:32]


def _digest(words: object) -> bytes:
    return hashlib.sha256(msgspec.json.encode(words)).digest()
