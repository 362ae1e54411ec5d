"""Cron schedules that clients made: kept in the store, fired by whichever process runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.cron import Schedule
from ackline.job import QueueKey
from ackline.limits import OWN_KEYS
from ackline.service.auth.credentials import SERVICE_TENANT
from ackline.service.problems import Conflict
from ackline.stores.base import Key, KeyWrite, Store, find_key

ROOM = (OWN_KEYS, "schedules")
"""Under it, for each queue: its schedules by name."""

TENANTS = (OWN_KEYS, "scheduling")
"""In the service's own room: the tenants that have made schedules. They cannot be found by their
queues, because a schedule may exist before its queue."""

MOST_TENANTS = 100_000

READ_ALL_EVERY = 30.0
"""Seconds after which all schedules are read again: what else writes and deletes them, such as the
drop of a queue, does not note it. One that is about to fire is read again in any case."""

MOST_SCHEDULES = 1000
"""Schedules of one queue."""

MOST_OF_TENANT = 10_000
"""Schedules of all queues of a tenant."""

MOST_READ = 2 * MOST_OF_TENANT
"""Concurrent requests may exceed a limit together; the schedules they made are still read."""

MOST_BYTES = 16 * 1024 * 1024
"""What all schedules of a tenant take: every process keeps them in memory."""


class Stored(msgspec.Struct):
    """A schedule as it is kept."""

    cron: str
    kind: str = "default"
    payload: Any = None
    timezone: str = "UTC"
    catch_up: str = "one"
    options: dict[str, Any] = {}

    def schedule(self, name: str) -> Schedule:
        """As the library's `Schedule`; raises if it is invalid."""
        return Schedule(
            name,
            self.cron,
            self.kind,
            self.payload,
            self.timezone,
            self.catch_up,  # type: ignore[arg-type]
            self.options,
        )


def tenants(store: Store) -> list[str]:
    """The tenants that have schedules, or had some."""
    found = store.read_keys(SERVICE_TENANT, TENANTS, MOST_TENANTS)
    return [entry.key[len(TENANTS)] for entry in found]


class StoredSchedules:
    """The stored entries of all schedules, read again only for tenants that changed theirs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: dict[str, int] = {}
        self._found: dict[str, dict[QueueKey, list[Key]]] = {}
        self._read_at = -math.inf

    def read(self) -> dict[QueueKey, list[Key]]:
        """By queue, as they were a moment ago."""
        noted = self._store.read_keys(SERVICE_TENANT, TENANTS, MOST_TENANTS)
        versions = {entry.key[len(TENANTS)]: entry.version for entry in noted}
        now = time.monotonic()
        if now - self._read_at >= READ_ALL_EVERY:
            self._versions, self._read_at = {}, now
        for tenant in versions:
            if versions[tenant] != self._versions.get(tenant):
                self._found[tenant] = stored(self._store, [tenant])
        for tenant in self._found.keys() - versions.keys():
            del self._found[tenant]
        self._versions = versions
        return {key: entries for found in self._found.values() for key, entries in found.items()}

    def read_of(self, key: QueueKey) -> list[Key]:
        """Those of one queue, as they are now."""
        entries = self._store.read_keys(key.tenant, _room(key), MOST_READ)
        of_tenant = self._found.setdefault(key.tenant, {})
        if entries:
            of_tenant[key] = entries
        else:
            of_tenant.pop(key, None)
        return entries


def stored(store: Store, tenants: Iterable[str]) -> dict[QueueKey, list[Key]]:
    """The stored entries of all schedules of these tenants, by queue."""
    found: dict[QueueKey, list[Key]] = {}
    for tenant in tenants:
        for entry in store.read_keys(tenant, ROOM, MOST_READ):
            found.setdefault(QueueKey(tenant, entry.key[len(ROOM)]), []).append(entry)
    return found


def read_all(store: Store, key: QueueKey) -> list[Schedule]:
    """All schedules of a queue, by name."""
    # A queue that two were merged into may have more than the limit.
    return list(map(read, store.read_keys(key.tenant, _room(key), MOST_READ)))


def require_room(store: Store, key: QueueKey, schedule: Schedule) -> None:
    """Refuse more schedules than would be read: they could be neither listed nor fired."""
    path = _path(key, schedule.name)
    found = store.read_keys(key.tenant, ROOM, MOST_READ)
    others = [entry for entry in found if entry.key != path]
    if sum(len(entry.value) for entry in others) + len(_value(schedule)) > MOST_BYTES:
        raise Conflict(
            f"the schedules of a tenant, with their payloads, have at most {MOST_BYTES:,} bytes: "
            "make payloads smaller, or delete a schedule first"
        )
    if len(others) < len(found):
        return
    if len(others) >= MOST_OF_TENANT:
        raise Conflict(f"a tenant has at most {MOST_OF_TENANT:,} schedules: delete one first")
    room = _room(key)
    if sum(entry.key[: len(room)] == room for entry in others) >= MOST_SCHEDULES:
        raise Conflict(
            f"queue {key.name!r} already has {MOST_SCHEDULES:,} schedules, which is the limit: "
            "delete one first"
        )


def find(store: Store, key: QueueKey, name: str) -> tuple[Schedule | None, int]:
    """One schedule, if it exists, and a number that changes with each write."""
    entry = find_key(store, key.tenant, _path(key, name))
    if entry is None:
        return None, 0
    return read(entry), entry.version


def write(store: Store, key: QueueKey, schedule: Schedule, version: int | None = None) -> bool:
    """Store a schedule, replacing one of the same name; with a version, only that version."""
    _note_tenant(store, key.tenant)
    write = KeyWrite(key=_path(key, schedule.name), value=_value(schedule), version=version)
    written = store.write_keys(key.tenant, [write])
    note_change(store, key.tenant)
    return written


def delete(store: Store, key: QueueKey, name: str, version: int) -> bool:
    """Delete a schedule if it still has this version; False if it has changed."""
    write = KeyWrite(key=_path(key, name), value=None, version=version)
    deleted = store.write_keys(key.tenant, [write])
    note_change(store, key.tenant)
    return deleted


def read(entry: Key) -> Schedule:
    """One schedule, as it was stored."""
    return msgspec.json.decode(entry.value, type=Stored).schedule(entry.key[-1])


def _note_tenant(store: Store, tenant: str) -> None:
    """Record a tenant before its first schedule is stored, so that none is overlooked."""
    store.write_keys(SERVICE_TENANT, [KeyWrite(key=(*TENANTS, tenant), value=b"", version=0)])


def note_change(store: Store, tenant: str) -> None:
    """Tell all processes that a tenant has changed its schedules: the note's version changes."""
    store.write_keys(SERVICE_TENANT, [KeyWrite(key=(*TENANTS, tenant), value=b"")])


def _room(key: QueueKey) -> tuple[str, ...]:
    return (*ROOM, key.name)


def _path(key: QueueKey, name: str) -> tuple[str, ...]:
    return (*_room(key), name)


def _value(schedule: Schedule) -> bytes:
    stored = Stored(
        schedule.cron,
        schedule.kind,
        schedule.payload,
        schedule.timezone,
        schedule.catch_up,
        dict(schedule.options),
    )
    return msgspec.json.encode(stored)
