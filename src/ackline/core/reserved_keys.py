"""The keys that Ackline itself keeps among a tenant's keys, by what they are for."""

from __future__ import annotations

import enum

from ackline.core.limits import RESERVED_KEY_PREFIX


class KeyFamily(enum.StrEnum):
    """The second part of a reserved key. In keys of a queue, the third is the queue's name."""

    QUEUE = "queue"
    """Of a queue, written in the same step as its jobs, such as the ledger of a relay."""
    CALLBACKS = "callbacks"
    """Of a queue: since when its jobs have callbacks."""
    CLAIMS = "claims"
    """Of a queue: its Spark streams of claims."""
    CRON = "cron"
    """Of a queue: the last tick of each schedule."""
    FLEETS = "fleets"
    """Of a queue: the stop flags of Spark fleets."""
    MAINTENANCE = "maintenance"
    """Of a queue: which process runs a maintenance loop."""
    LOCAL_MAX_ATTEMPTS = "attempts"
    """Of a queue: what workers have set as the attempts of their handlers."""
    READERS = "readers"
    """Of a queue: the cursors of its journal's readers."""
    RECOVERED = "recovered"
    """Of a queue: how many jobs were recovered."""
    SCHEDULES = "schedules"
    """Of a queue: the schedules that the service fires."""
    SPARK = "spark"
    """Records of Spark streams and lakes."""
    API_KEYS = "api-keys"
    READYZ = "readyz"
    SCHEDULING = "scheduling"
    TICKETS = "tickets"
    WEBHOOKS = "webhooks"
    WEBHOOKS_CHANGED = "webhooks changed"


SERVICE_FAMILIES = frozenset(
    {
        KeyFamily.API_KEYS,
        KeyFamily.READYZ,
        KeyFamily.SCHEDULING,
        KeyFamily.TICKETS,
        KeyFamily.WEBHOOKS,
        KeyFamily.WEBHOOKS_CHANGED,
    }
)
"""Keys that only the service itself writes."""

DROPPED_WITH_QUEUE = (
    frozenset(KeyFamily)
    - SERVICE_FAMILIES
    - {
        KeyFamily.CALLBACKS,
        KeyFamily.READERS,
        KeyFamily.SPARK,
    }
)
"""Keys that are deleted with their queue. Its journal stays, and so do the positions in it."""


def reserved_key(family: KeyFamily, *parts: str) -> tuple[str, ...]:
    """A reserved key, or a prefix of several.

    >>> reserved_key(KeyFamily.RECOVERED, "email")
    ('ackline', 'recovered', 'email')
    """
    return (RESERVED_KEY_PREFIX, family.value, *parts)
