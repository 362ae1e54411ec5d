"""Reserved keys: who may write which over HTTP, and which values are valid.

The service reads them for all tenants, so an invalid one would affect all tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.core.errors import InvalidOption
from ackline.core.events import read_cursor
from ackline.core.job import QueueKey
from ackline.core.reserved_keys import KeyFamily
from ackline.maintenance import locks
from ackline.maintenance.scheduler import decode_schedule_state
from ackline.queue.journal.saved_cursor import ALL_QUEUES, decode_saved_cursor
from ackline.queue.metadata import callbacks, local_max_attempts
from ackline.queue.metadata.recovery_counts import decode_recovery_counts
from ackline.service import schedules
from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Impact, Permission, permission_for_key
from ackline.service.http.problems import Forbidden
from ackline.service.store_api.arguments import require_queues
from ackline.service.webhooks.dispatcher import READER
from ackline.stores.contract import KeyWrite

MIN_PARTS = 3
"""Every reserved key belongs to a queue, which is its third part."""

Read = Callable[[bytes], Any]


class ReservedKey(msgspec.Struct, frozen=True, kw_only=True):
    """One family of reserved keys."""

    parts: int | None = None
    """The number of its parts; None is any number."""
    read: Read | None = None
    """Decodes a value, and raises if it is invalid; None if the service never reads it."""
    may_set: bool = True
    """Whether it may be set; otherwise it may only be deleted."""
    may_change: bool = True
    """Whether it may be changed or deleted; otherwise it may only be created."""
    is_cursor: bool = False
    """Whether its value is a cursor, which must not be beyond the journal's end."""


RESERVED_KEYS: Mapping[str, ReservedKey] = {
    KeyFamily.LOCAL_MAX_ATTEMPTS: ReservedKey(parts=3, read=local_max_attempts.decode_max_attempts),
    KeyFamily.CALLBACKS: ReservedKey(
        parts=3,
        read=callbacks.decode_cursor,
        may_change=False,
        is_cursor=True,
    ),
    KeyFamily.CLAIMS: ReservedKey(),
    KeyFamily.CRON: ReservedKey(parts=4, read=decode_schedule_state),
    KeyFamily.FLEETS: ReservedKey(parts=4),
    KeyFamily.MAINTENANCE: ReservedKey(parts=4, read=locks.decode_lock),
    KeyFamily.RECOVERED: ReservedKey(parts=3, read=decode_recovery_counts),
    KeyFamily.READERS: ReservedKey(
        parts=4,
        read=lambda value: decode_saved_cursor(value).cursor,
        is_cursor=True,
    ),
    # Written by their own routes; dropping a queue deletes them.
    KeyFamily.SCHEDULES: ReservedKey(parts=4, may_set=False),
    KeyFamily.SPARK: ReservedKey(),
    KeyFamily.QUEUE: ReservedKey(),
}
"""By the second part of the key. Who may write and read them is in `auth.permissions`."""


def require_reserved_write(caller: Caller, write: KeyWrite) -> None:
    """Refuse a reserved key that this caller may not write, or with an invalid value."""
    key, name = write.key, " / ".join(write.key)
    reserved_key = RESERVED_KEYS.get(key[1]) if len(key) >= MIN_PARTS else None
    if reserved_key is None:
        raise Forbidden(f"the key {name} is reserved: only the service itself writes it")
    caller.require(permission_for_key(key))
    if key[1] == KeyFamily.READERS and key[2] == ALL_QUEUES:
        caller.require_unrestricted(Impact.TENANT)
    else:
        require_queues(caller, key[2])
    if reserved_key.parts not in (None, len(key)):
        raise InvalidOption(f"the key {name} must have {reserved_key.parts} parts, not {len(key)}")
    if not reserved_key.may_change and (write.value is None or write.version != 0):
        raise Forbidden(f"the key {name} can be created (version 0), but not changed or deleted")
    if write.value is not None:
        _require_value(caller, reserved_key, name, write.value)
    if key[1] == KeyFamily.CRON:
        _require_not_service_schedule(caller, write)
    if key[1] == KeyFamily.READERS and key[3] == READER:
        raise Forbidden(f"the reader {READER!r} is the service's own: choose another name")


def _require_not_service_schedule(caller: Caller, write: KeyWrite) -> None:
    """Refuse to write the state of a schedule that the service fires; a drop may delete it."""
    dropping = write.value is None and caller.principal.may(Permission.DROP)
    queue, name = QueueKey(caller.tenant, write.key[2]), write.key[3]
    if not dropping and schedules.find(caller.runtime.store, queue, name)[0] is not None:
        raise Forbidden(f"schedule {name!r} of queue {queue.name!r} is fired by the service itself")


def _require_value(caller: Caller, reserved_key: ReservedKey, name: str, value: bytes) -> None:
    if not reserved_key.may_set:
        raise Forbidden(
            f"the key {name} can only be deleted: use the routes of schedules to write it"
        )
    if reserved_key.read is None:
        return
    try:
        value_read = reserved_key.read(value)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidOption(f"invalid value of the key {name}: {error}") from None
    if reserved_key.is_cursor and read_cursor(value_read) > read_cursor(
        caller.runtime.store.info().cursor
    ):
        raise InvalidOption(
            f"invalid value of the key {name}: {value_read} is beyond the journal's end"
        )
