"""Which queues have jobs with callbacks, so that services know to make the calls."""

from __future__ import annotations

from collections.abc import Iterable

from ackline.core.events import read_cursor
from ackline.core.job import NO_OPTIONS, Draft, QueueKey
from ackline.core.reserved_keys import KeyFamily, reserved_key
from ackline.stores.contract import KeyWrite, Store

CALLBACK_KEYS = reserved_key(KeyFamily.CALLBACKS)
"""Prefix of the keys that hold, by queue, the journal's end before the first such job."""

MAX_QUEUES = 10_000


def any_callback(drafts: Iterable[Draft]) -> bool:
    """Whether one of these jobs has a callback."""
    for draft in drafts:
        if draft.options is not NO_OPTIONS and draft.options.callback_url is not None:
            return True
    return False


def record_callbacks(store: Store, queue: QueueKey) -> None:
    """Record that jobs of this queue have callbacks; called before they are enqueued."""
    value = store.info().cursor.encode()
    write = KeyWrite(key=(*CALLBACK_KEYS, queue.name), value=value, version=0)
    store.write_keys(queue.tenant, [write])


def callbacks_since(store: Store, tenant: str) -> str | None:
    """The cursor after which jobs may have callbacks; None if no job ever had one."""
    cursors = [
        decode_cursor(entry.value) for entry in store.read_keys(tenant, CALLBACK_KEYS, MAX_QUEUES)
    ]
    return min(cursors, key=read_cursor, default=None)


def decode_cursor(value: bytes) -> str:
    """Decode a recorded cursor; raises if the value is invalid."""
    cursor = value.decode()
    read_cursor(cursor)
    return cursor
