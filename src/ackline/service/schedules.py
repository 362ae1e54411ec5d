"""Cron schedules that clients created: kept in the store, fired by any process."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from ackline.core.cron import Schedule
from ackline.core.job import QueueKey
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.maintenance.scheduler import SCHEDULE_STATES
from ackline.service.auth.credentials import SERVICE_TENANT
from ackline.service.http.problems import Conflict
from ackline.stores.contract import KeyValue, KeyWrite, Store, find_key

SCHEDULES_PREFIX = reserved_key(KeyFamily.SCHEDULES)
"""The keys of a tenant's schedules: queue, then name."""

TENANTS_PREFIX = reserved_key(KeyFamily.SCHEDULING)
"""Keys of the service's own tenant: the tenants with schedules. They cannot be found by their
queues, because a schedule may exist before its queue."""

MAX_TENANTS = 100_000

READ_ALL_EVERY = 30.0
"""Seconds after which all schedules are read again: dropping a queue, for example, deletes them
without changing the version. A schedule that is about to fire is always read again."""

MAX_PER_QUEUE = 1000
"""Maximum number of schedules of one queue."""

MAX_PER_TENANT = 10_000
"""Maximum number of schedules of a tenant."""

READ_LIMIT = 2 * MAX_PER_TENANT
"""Concurrent requests may exceed a limit together; their schedules are still read."""

MAX_BYTES_PER_TENANT = 16 * 1024 * 1024
"""Maximum size of all schedules of a tenant: every process keeps them in memory."""


class StoredSchedule(msgspec.Struct):
    """A schedule as it is stored."""

    cron: str
    kind: str = "default"
    payload: Any = None
    tz: str = "UTC"
    catch_up: str = "one"
    options: dict[str, Any] = {}

    def schedule(self, name: str) -> Schedule:
        """As a `Schedule`; raises if it is invalid."""
        return Schedule(
            name,
            self.cron,
            self.kind,
            self.payload,
            self.tz,
            self.catch_up,  # type: ignore[arg-type]
            self.options,
        )


def tenants(store: Store) -> list[str]:
    """The tenants that have or had schedules."""
    found = store.read_keys(SERVICE_TENANT, TENANTS_PREFIX, MAX_TENANTS)
    return [entry.key[len(TENANTS_PREFIX)] for entry in found]


class ScheduleCache:
    """The entries of all schedules, read again only for tenants that changed theirs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: dict[str, int] = {}
        self._entries: dict[str, dict[QueueKey, list[KeyValue]]] = {}
        self._read_at = -math.inf

    def read(self) -> dict[QueueKey, list[KeyValue]]:
        """The entries by queue, as of a moment ago."""
        registered = self._store.read_keys(SERVICE_TENANT, TENANTS_PREFIX, MAX_TENANTS)
        versions = {entry.key[len(TENANTS_PREFIX)]: entry.version for entry in registered}
        now = time.monotonic()
        if now - self._read_at >= READ_ALL_EVERY:
            self._versions, self._read_at = {}, now
        for tenant in versions:
            if versions[tenant] != self._versions.get(tenant):
                self._entries[tenant] = read_entries(self._store, [tenant])
        for tenant in self._entries.keys() - versions.keys():
            del self._entries[tenant]
        self._versions = versions
        return {key: entries for found in self._entries.values() for key, entries in found.items()}

    def read_of(self, key: QueueKey) -> list[KeyValue]:
        """The entries of one queue, as they are now."""
        entries = self._store.read_keys(key.tenant, _queue_prefix(key), READ_LIMIT)
        of_tenant = self._entries.setdefault(key.tenant, {})
        if entries:
            of_tenant[key] = entries
        else:
            of_tenant.pop(key, None)
        return entries


def read_entries(store: Store, tenants: Iterable[str]) -> dict[QueueKey, list[KeyValue]]:
    """The entries of all schedules of these tenants, by queue."""
    found: dict[QueueKey, list[KeyValue]] = {}
    for tenant in tenants:
        for entry in store.read_keys(tenant, SCHEDULES_PREFIX, READ_LIMIT):
            found.setdefault(QueueKey(tenant, entry.key[len(SCHEDULES_PREFIX)]), []).append(entry)
    return found


def read_all(store: Store, key: QueueKey) -> list[Schedule]:
    """All schedules of a queue, by name."""
    # A queue that another was merged into may have more than the limit.
    return list(map(decode, store.read_keys(key.tenant, _queue_prefix(key), READ_LIMIT)))


def require_within_limits(store: Store, key: QueueKey, schedule: Schedule) -> None:
    """Refuse a schedule beyond the limits: it could be neither listed nor fired."""
    path = _key(key, schedule.name)
    found = store.read_keys(key.tenant, SCHEDULES_PREFIX, READ_LIMIT)
    others = [entry for entry in found if entry.key != path]
    if sum(len(entry.value) for entry in others) + len(_value(schedule)) > MAX_BYTES_PER_TENANT:
        raise Conflict(
            f"the schedules of a tenant may have {MAX_BYTES_PER_TENANT:,} bytes in all: "
            "make the payloads smaller, or delete a schedule first"
        )
    if len(others) < len(found):
        return
    if len(others) >= MAX_PER_TENANT:
        raise Conflict(f"a tenant may have {MAX_PER_TENANT:,} schedules: delete one first")
    prefix = _queue_prefix(key)
    if sum(entry.key[: len(prefix)] == prefix for entry in others) >= MAX_PER_QUEUE:
        raise Conflict(
            f"queue {key.name!r} already has the maximum of {MAX_PER_QUEUE:,} schedules: "
            "delete one first"
        )


def find(store: Store, key: QueueKey, name: str) -> tuple[Schedule | None, int]:
    """A schedule, if it exists, and its version, which changes with each write."""
    entry = find_key(store, key.tenant, _key(key, name))
    if entry is None:
        return None, 0
    return decode(entry), entry.version


def write(store: Store, key: QueueKey, schedule: Schedule, version: int | None = None) -> bool:
    """Store a schedule, replacing one of the same name; with `version`, only that version."""
    _register_tenant(store, key.tenant)
    write = KeyWrite(key=_key(key, schedule.name), value=_value(schedule), version=version)
    written = store.write_keys(key.tenant, [write])
    bump_version(store, key.tenant)
    return written


def delete(store: Store, key: QueueKey, name: str, version: int) -> bool:
    """Delete a schedule if it still has this version, and return whether it did."""
    writes = [
        KeyWrite(key=_key(key, name), value=None, version=version),
        KeyWrite(key=(*SCHEDULE_STATES, key.name, name), value=None),
    ]
    deleted = store.write_keys(key.tenant, writes)
    bump_version(store, key.tenant)
    return deleted


def decode(entry: KeyValue) -> Schedule:
    """Decode a stored schedule."""
    return msgspec.json.decode(entry.value, type=StoredSchedule).schedule(entry.key[-1])


def _register_tenant(store: Store, tenant: str) -> None:
    """Register a tenant before its first schedule is stored, so that no process misses it."""
    store.write_keys(
        SERVICE_TENANT, [KeyWrite(key=(*TENANTS_PREFIX, tenant), value=b"", version=0)]
    )


def bump_version(store: Store, tenant: str) -> None:
    """Change the version of a tenant's schedules, so that all processes read them again."""
    store.write_keys(SERVICE_TENANT, [KeyWrite(key=(*TENANTS_PREFIX, tenant), value=b"")])


def _queue_prefix(key: QueueKey) -> tuple[str, ...]:
    return (*SCHEDULES_PREFIX, key.name)


def _key(key: QueueKey, name: str) -> tuple[str, ...]:
    return (*_queue_prefix(key), name)


def _value(schedule: Schedule) -> bytes:
    stored = StoredSchedule(
        schedule.cron,
        schedule.kind,
        schedule.payload,
        schedule.tz,
        schedule.catch_up,
        dict(schedule.options),
    )
    return msgspec.json.encode(stored)
