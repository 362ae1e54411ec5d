"""The settings of a queue as its key holds them: whole, and in parts for the scripts."""

from __future__ import annotations

from ackline.config import DEFAULT_SETTINGS, QueueSettings
from ackline.stores.shared.records import encode_settings


def fields_of(settings: QueueSettings) -> list[bytes | str]:
    """Fields and values of the queue's key."""
    limit = "" if settings.max_jobs is None else str(settings.max_jobs)
    return [
        "settings", encode_settings(settings),
        "ageing", repr(settings.ageing),
        "paused", "1" if settings.paused else "0",
        "group_limit", str(settings.group_limit),
        "max_jobs", limit,
    ]  # fmt: skip


def fields_of_new(mark: int) -> list[bytes | str]:
    """The fields of a new queue; `idle`, because somebody may already be waiting for its jobs."""
    return [*fields_of(DEFAULT_SETTINGS), "idle", "1", "mark", str(mark)]
