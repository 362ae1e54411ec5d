"""Cron schedules that clients made: kept in the store, fired by whichever process runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.cron import Schedule
from ackline.job import QueueKey
from ackline.limits import OWN_KEYS
from ackline.stores.base import Key, KeyWrite, Store

ROOM = (OWN_KEYS, "schedules")
"""Under it, for each queue: its schedules by name."""

MOST_SCHEDULES = 1000
"""Of one queue."""

MOST_OF_TENANT = 100_000
"""Of all its queues."""


class Stored(msgspec.Struct):
    """A schedule as it is kept."""

    cron: str
    kind: str = "default"
    payload: Any = None
    timezone: str = "UTC"
    catch_up: str = "one"
    options: dict[str, Any] = {}

    def schedule(self, name: str) -> Schedule:
        """The same for the library; refuses an invalid one."""
        return Schedule(
            name,
            self.cron,
            self.kind,
            self.payload,
            self.timezone,
            self.catch_up,  # type: ignore[arg-type]
            self.options,
        )


def stored(store: Store, tenants: Iterable[str]) -> dict[QueueKey, list[Key]]:
    """What is kept of the schedules of all queues that have any."""
    found: dict[QueueKey, list[Key]] = {}
    for tenant in tenants:
        for entry in store.read_keys(tenant, ROOM, MOST_OF_TENANT):
            found.setdefault(QueueKey(tenant, entry.key[len(ROOM)]), []).append(entry)
    return found


def read_all(store: Store, key: QueueKey) -> list[Schedule]:
    """All schedules of a queue, by name."""
    return list(map(read, store.read_keys(key.tenant, _room(key), MOST_SCHEDULES)))


def find(store: Store, key: QueueKey, name: str) -> tuple[Schedule | None, int]:
    """One schedule, if it is there, and a number that changes with each write."""
    path = (*_room(key), name)
    for entry in store.read_keys(key.tenant, path, 1):
        if entry.key == path:
            return read(entry), entry.version
    return None, 0


def write(store: Store, key: QueueKey, schedule: Schedule, version: int | None = None) -> bool:
    """Keep a schedule, in place of one of the same name; with a version, only of that one."""
    stored = Stored(
        schedule.cron,
        schedule.kind,
        schedule.payload,
        schedule.timezone,
        schedule.catch_up,
        dict(schedule.options),
    )
    value = msgspec.json.encode(stored)
    path = (*_room(key), schedule.name)
    return store.write_keys(key.tenant, [KeyWrite(key=path, value=value, version=version)])


def delete(store: Store, key: QueueKey, name: str, version: int) -> bool:
    """Forget a schedule as it was found; False if it has changed since."""
    path = (*_room(key), name)
    return store.write_keys(key.tenant, [KeyWrite(key=path, value=None, version=version)])


def read(entry: Key) -> Schedule:
    """One schedule, as it was kept."""
    return msgspec.json.decode(entry.value, type=Stored).schedule(entry.key[-1])


def _room(key: QueueKey) -> tuple[str, ...]:
    return (*ROOM, key.name)
