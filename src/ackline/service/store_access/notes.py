"""Ackline's own notes in a tenant's room: who may write which over HTTP, and what they look like.

The service reads them for all tenants, so one that it could not read would affect all tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.errors import InvalidOption
from ackline.events import read_cursor
from ackline.job import QueueKey
from ackline.maintenance import locks
from ackline.maintenance.scheduler import read_note
from ackline.queue import callbacks, own_attempts
from ackline.queue.reader_place import EVERY_QUEUE, read_place
from ackline.queue.recovery import read_ways
from ackline.service import schedules
from ackline.service.auth.authorization import Access, Reach, access_of_key
from ackline.service.auth.caller import Caller
from ackline.service.problems import Forbidden
from ackline.service.store_access.arguments import require_queues
from ackline.service.webhooks.dispatcher import READER
from ackline.stores.base import BESIDE, KeyWrite

LEAST_PARTS = 3
"""Every note is about a queue, which is the third part of its key."""

Read = Callable[[bytes], Any]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One sort of notes."""

    parts: int | None = None
    """How many parts its key has; None is any number."""
    read: Read | None = None
    """Reads a value, and raises if it is invalid; None if the service never reads it."""
    is_set: bool = True
    """Whether it may be given a value; otherwise it may only be deleted."""
    is_changed: bool = True
    """Whether it may be changed or deleted; otherwise it may only be created."""
    is_reached: bool = False
    """Whether it is a cursor: the journal must have reached it."""


NOTES: Mapping[str, Note] = {
    own_attempts.NOTE: Note(parts=3, read=own_attempts.read_attempts),
    "callbacks": Note(
        parts=3,
        read=callbacks.read_since,
        is_changed=False,
        is_reached=True,
    ),
    "claims": Note(),
    "cron": Note(parts=4, read=read_note),
    "fleets": Note(parts=4),
    locks.NOTE: Note(parts=4, read=locks.read_lock),
    "recovered": Note(parts=3, read=read_ways),
    "readers": Note(
        parts=4,
        read=lambda value: read_place(value).cursor,
        is_reached=True,
    ),
    # Made by routes of their own; dropping a queue deletes them.
    "schedules": Note(parts=4, is_set=False),
    "spark": Note(),
    BESIDE: Note(),
}
"""By the second part of their keys. Who may write and read them is in the authorization table."""


def require_note(caller: Caller, write: KeyWrite) -> None:
    """Refuse a note that this caller may not write, or that nobody could read."""
    key, name = write.key, " / ".join(write.key)
    note = NOTES.get(key[1]) if len(key) >= LEAST_PARTS else None
    if note is None:
        raise Forbidden(f"the key {name} is reserved: only the service itself writes it")
    caller.require(access_of_key(key))
    if key[1] == "readers" and key[2] == EVERY_QUEUE:
        caller.require_reach(Reach.TENANT)
    else:
        require_queues(caller, key[2])
    if note.parts not in (None, len(key)):
        raise InvalidOption(f"the key {name} must have {note.parts} parts, not {len(key)}")
    if not note.is_changed and (write.value is None or write.version != 0):
        raise Forbidden(f"the key {name} can be made (version 0), not changed or deleted")
    if write.value is not None:
        _require_value(caller, note, name, write.value)
    if key[1] == "cron":
        _require_not_fired_here(caller, write)
    if key[1] == "readers" and key[3] == READER:
        raise Forbidden(f"the reader {READER!r} is the service's own: choose another name")


def _require_not_fired_here(caller: Caller, write: KeyWrite) -> None:
    """Refuse to write the ticks of a schedule that the service fires; a drop may delete them."""
    dropping = write.value is None and caller.principal.may(Access.DROP)
    queue, name = QueueKey(caller.tenant, write.key[2]), write.key[3]
    if not dropping and schedules.find(caller.runtime.store, queue, name)[0] is not None:
        raise Forbidden(f"schedule {name!r} of queue {queue.name!r} is fired by the service itself")


def _require_value(caller: Caller, note: Note, name: str, value: bytes) -> None:
    if not note.is_set:
        raise Forbidden(f"the key {name} can only be deleted: it is written by routes of its own")
    if note.read is None:
        return
    try:
        found = note.read(value)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidOption(f"the key {name} cannot have this value: {error}") from None
    if note.is_reached and read_cursor(found) > read_cursor(caller.runtime.store.info().cursor):
        raise InvalidOption(f"the key {name} cannot be at {found}: the journal ends before it")
