"""The settings of a queue as its key holds them: whole, and in parts for the scripts."""

from __future__ import annotations

import functools

import msgspec

from ackline.config import DEFAULT_SETTINGS, QueueSettings

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@functools.lru_cache(maxsize=1024)
def decode_settings(data: bytes) -> QueueSettings:
    """Read a queue's settings; queues that share them share the object."""
    return msgspec.msgpack.decode(data, type=QueueSettings)


def encode_settings(settings: QueueSettings) -> bytes:
    """The whole settings."""
    return _encode(settings)


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
