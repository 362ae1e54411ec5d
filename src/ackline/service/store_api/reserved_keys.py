"""Ackline's own notes in a tenant's room: who may write which over HTTP, and what they look like.

The service reads them for all tenants, so one that it could not read would affect all tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.core.errors import InvalidOption
from ackline.core.events import read_cursor
from ackline.core.job import QueueKey
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
from ackline.stores.contract import QUEUE_KEYS, KeyWrite

MIN_PARTS = 3
"""Every note is about a queue, which is the third part of its key."""

Read = Callable[[bytes], Any]


class ReservedKey(msgspec.Struct, frozen=True, kw_only=True):
    """One sort of notes."""

    parts: int | None = None
    """How many parts its key has; None is any number."""
    read: Read | None = None
    """Reads a value, and raises if it is invalid; None if the service never reads it."""
    may_set: bool = True
    """Whether it may be given a value; otherwise it may only be deleted."""
    may_change: bool = True
    """Whether it may be changed or deleted; otherwise it may only be created."""
    is_cursor: bool = False
    """Whether it is a cursor: the journal must have reached it."""


RESERVED_KEYS: Mapping[str, ReservedKey] = {
    local_max_attempts.METADATA_KEY: ReservedKey(
        parts=3, read=local_max_attempts.decode_max_attempts
    ),
    "callbacks": ReservedKey(
        parts=3,
        read=callbacks.decode_cursor,
        may_change=False,
        is_cursor=True,
    ),
    "claims": ReservedKey(),
    "cron": ReservedKey(parts=4, read=decode_schedule_state),
    "fleets": ReservedKey(parts=4),
    locks.KEY_PREFIX: ReservedKey(parts=4, read=locks.decode_lock),
    "recovered": ReservedKey(parts=3, read=decode_recovery_counts),
    "readers": ReservedKey(
        parts=4,
        read=lambda value: decode_saved_cursor(value).cursor,
        is_cursor=True,
    ),
    # Made by routes of their own; dropping a queue deletes them.
    "schedules": ReservedKey(parts=4, may_set=False),
    "spark": ReservedKey(),
    QUEUE_KEYS: ReservedKey(),
}
"""By the second part of their keys. Who may write and read them is in the authorization table."""


def require_reserved_write(caller: Caller, write: KeyWrite) -> None:
    """Refuse a note that this caller may not write, or that nobody could read."""
    key, name = write.key, " / ".join(write.key)
    note = RESERVED_KEYS.get(key[1]) if len(key) >= MIN_PARTS else None
    if note is None:
        raise Forbidden(f"the key {name} is reserved: only the service itself writes it")
    caller.require(permission_for_key(key))
    if key[1] == "readers" and key[2] == ALL_QUEUES:
        caller.require_unrestricted(Impact.TENANT)
    else:
        require_queues(caller, key[2])
    if note.parts not in (None, len(key)):
        raise InvalidOption(f"the key {name} must have {note.parts} parts, not {len(key)}")
    if not note.may_change and (write.value is None or write.version != 0):
        raise Forbidden(f"the key {name} can be made (version 0), not changed or deleted")
    if write.value is not None:
        _require_value(caller, note, name, write.value)
    if key[1] == "cron":
        _require_not_service_schedule(caller, write)
    if key[1] == "readers" and key[3] == READER:
        raise Forbidden(f"the reader {READER!r} is the service's own: choose another name")


def _require_not_service_schedule(caller: Caller, write: KeyWrite) -> None:
    """Refuse to write the ticks of a schedule that the service fires; a drop may delete them."""
    dropping = write.value is None and caller.principal.may(Permission.DROP)
    queue, name = QueueKey(caller.tenant, write.key[2]), write.key[3]
    if not dropping and schedules.find(caller.runtime.store, queue, name)[0] is not None:
        raise Forbidden(f"schedule {name!r} of queue {queue.name!r} is fired by the service itself")


def _require_value(caller: Caller, note: ReservedKey, name: str, value: bytes) -> None:
    if not note.may_set:
        raise Forbidden(f"the key {name} can only be deleted: it is written by routes of its own")
    if note.read is None:
        return
    try:
        found = note.read(value)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidOption(f"the key {name} cannot have this value: {error}") from None
    if note.is_cursor and read_cursor(found) > read_cursor(caller.runtime.store.info().cursor):
        raise InvalidOption(f"the key {name} cannot be at {found}: the journal ends before it")
