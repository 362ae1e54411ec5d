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
    """Refuse queues, by key or by name, that the caller may not use."""
    for queue in queues if isinstance(queues, list) else [queues] if queues is not None else []:
        caller.require_queue(queue.name if isinstance(queue, QueueKey) else queue)


def signed_by(caller: Caller, by: str) -> str:
    """The name for the journal: the authenticated name, then the one that the client gave."""
    return truncate_note(": ".join(name for name in (caller.by, by) if name))


MAX_RESULTS = 10_000
"""Maximum number of jobs, events or keys in one response."""

MAX_LISTEN_QUEUES = 1000
"""Maximum number of queues of one listener."""


def require_limit(limit: int) -> None:
    """Refuse a limit above `MAX_RESULTS`."""
    if not 0 <= limit <= MAX_RESULTS:
        raise InvalidOption(f"limit must be 0 to {MAX_RESULTS:,}, not {limit}")


def require_ids(job_filter: Filter | None) -> None:
    """Refuse a filter with more than `MAX_RESULTS` ids."""
    if job_filter is not None and len(job_filter.ids or ()) > MAX_RESULTS:
        raise InvalidOption(
            f"the filter has {len(job_filter.ids or ()):,} ids; the limit is {MAX_RESULTS:,}"
        )


def require_write(caller: Caller, write: KeyWrite) -> None:
    """Refuse a key or a value that is too large."""
    if not 1 <= len(write.key) <= MAX_KEY_PARTS or any(
        len(part.encode()) > MAX_NAME_BYTES for part in write.key
    ):
        raise InvalidOption(
            f"a key has 1 to {MAX_KEY_PARTS} parts of up to {MAX_NAME_BYTES} bytes each"
        )
    require_size(caller, "value of a key", write.value)


def require_size(caller: Caller, name: str, data: bytes | None) -> None:
    """Refuse data larger than a payload may be."""
    max_payload = caller.runtime.settings.max_payload
    if data is not None and len(data) > max_payload:
        raise PayloadTooLarge(name, len(data), max_payload)
