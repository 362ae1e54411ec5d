"""Which tenants have jobs that want a callback, so that services know to make them."""

from __future__ import annotations

from collections.abc import Iterable

from ackline.events import read_cursor
from ackline.job import NO_OPTIONS, Draft, QueueKey
from ackline.limits import OWN_KEYS
from ackline.stores.base import KeyWrite, Store

ROOM = (OWN_KEYS, "callbacks")
"""Keys under it hold, for each queue with such jobs, the journal's end before the first one."""

RELAYED = "relayed"
"""The note of a completion by a relay: the job goes on, and calls back, in another store."""

MOST_QUEUES = 10_000


def wanted_by(drafts: Iterable[Draft]) -> bool:
    """Whether one of these jobs wants a callback."""
    for draft in drafts:
        if draft.options is not NO_OPTIONS and draft.options.callback_url is not None:
            return True
    return False


def note(store: Store, queue: QueueKey) -> None:
    """Note that jobs of this queue want callbacks; to be called before they are enqueued."""
    value = store.info().cursor.encode()
    write = KeyWrite(key=(*ROOM, queue.name), value=value, version=0)
    store.write_keys(queue.tenant, [write])


def since(store: Store, tenant: str) -> str | None:
    """The cursor after which callbacks may be wanted; None if no job ever wanted one."""
    cursors = [read_since(entry.value) for entry in store.read_keys(tenant, ROOM, MOST_QUEUES)]
    return min(cursors, key=read_cursor, default=None)


def read_since(value: bytes) -> str:
    """Decode the cursor of a note; raises if it is something else."""
    cursor = value.decode()
    read_cursor(cursor)
    return cursor
