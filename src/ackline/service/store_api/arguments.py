"""The arguments of store methods: which queues they name, who signs them, how large they are."""

from __future__ import annotations

from typing import Any

from ackline.core.errors import InvalidOption, PayloadTooLarge
from ackline.core.job import QueueKey
from ackline.core.limits import MAX_KEY_PARTS, MAX_NAME_BYTES, truncate_note
from ackline.service.auth.caller import Caller
from ackline.stores.contract import Filter, KeyWrite

Arguments = dict[str, Any]


def require_queues(caller: Caller, queues: QueueKey | str | list[QueueKey] | None) -> None:
    """Refuse queues, given by key or by name, that the caller may not use."""
    for queue in queues if isinstance(queues, list) else [queues] if queues is not None else []:
        caller.require_queue(queue.name if isinstance(queue, QueueKey) else queue)


def signed_by(caller: Caller, by: str) -> str:
    """Who did it: first the authenticated name, then the name that the client gave."""
    return truncate_note(": ".join(name for name in (caller.by, by) if name))


MAX_RESULTS = 10_000
"""Jobs, events or keys that one answer has at most."""

MAX_LISTEN_QUEUES = 1000
"""Queues that one listener hears."""


def require_limit(limit: int) -> None:
    """Refuse a limit above `MOST`."""
    if not 0 <= limit <= MAX_RESULTS:
        raise InvalidOption(f"limit must be 0 to {MAX_RESULTS:,}, not {limit}")


def require_ids(which: Filter | None) -> None:
    """Refuse a filter with more than `MOST` ids."""
    if which is not None and len(which.ids or ()) > MAX_RESULTS:
        raise InvalidOption(f"which has {len(which.ids or ()):,} ids; the limit is {MAX_RESULTS:,}")


def require_write(caller: Caller, write: KeyWrite) -> None:
    """Refuse a key or a value that is too large."""
    if not 1 <= len(write.key) <= MAX_KEY_PARTS or any(
        len(part.encode()) > MAX_NAME_BYTES for part in write.key
    ):
        raise InvalidOption(
            f"a key has 1 to {MAX_KEY_PARTS} parts of up to {MAX_NAME_BYTES} bytes each"
        )
    require_size(caller, "value of a key", write.value)


def require_size(caller: Caller, what: str, data: bytes | None) -> None:
    """Refuse what is larger than a payload may be."""
    most = caller.runtime.settings.max_payload
    if data is not None and len(data) > most:
        raise PayloadTooLarge(what, len(data), most)
