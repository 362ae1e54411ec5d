"""Cron schedules that clients made: kept in the store, fired by whichever process runs."""

from __future__ import annotations

from typing import Any

import msgspec

from ackline.cron import Schedule
from ackline.job import QueueKey
from ackline.limits import OWN_KEYS
from ackline.stores.base import Key, KeyWrite, Store

MOST_SCHEDULES = 1000
"""Of one queue."""


class Stored(msgspec.Struct):
    """A schedule as it is kept."""

    cron: str
    kind: str = "default"
    payload: Any = None
    timezone: str = "UTC"
    catch_up: str = "one"
    options: dict[str, Any] = {}

    def schedule(self, name: str) -> Schedule:
        """The same for the library; refuses what cannot be."""
        return Schedule(
            name,
            self.cron,
            self.kind,
            self.payload,
            self.timezone,
            self.catch_up,  # type: ignore[arg-type]
            self.options,
        )


def read(store: Store, key: QueueKey) -> list[Schedule]:
    """All schedules of a queue, by name."""
    found = store.read_keys(key.tenant, _room(key), MOST_SCHEDULES)
    return [_schedule(entry) for entry in found]


def write(store: Store, key: QueueKey, schedule: Schedule) -> None:
    """Keep a schedule, in place of one of the same name."""
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
    store.write_keys(key.tenant, [KeyWrite(key=path, value=value)])


def delete(store: Store, key: QueueKey, name: str) -> bool:
    """Forget a schedule; False if there was none."""
    path = (*_room(key), name)
    if not any(entry.key == path for entry in store.read_keys(key.tenant, path, 1)):
        return False
    return store.write_keys(key.tenant, [KeyWrite(key=path, value=None)])


def _schedule(entry: Key) -> Schedule:
    return msgspec.json.decode(entry.value, type=Stored).schedule(entry.key[-1])


def _room(key: QueueKey) -> tuple[str, ...]:
    return (OWN_KEYS, "schedules", key.name)
