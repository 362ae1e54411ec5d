"""What the arguments of the store's verbs have in common."""

from __future__ import annotations

from typing import Any

from ackline.core.job import QueueKey
from ackline.core.limits import truncate_note
from ackline.service.auth.caller import Caller

Arguments = dict[str, Any]


def require_queues(caller: Caller, queues: QueueKey | str | list[QueueKey] | None) -> None:
    """Refuse queues, given by key or by name, that the caller may not use."""
    for queue in queues if isinstance(queues, list) else [queues] if queues is not None else []:
        caller.require_queue(queue.name if isinstance(queue, QueueKey) else queue)


def signed_by(caller: Caller, by: str) -> str:
    """Who did it: first the authenticated name, then the name that the client gave."""
    return truncate_note(": ".join(name for name in (caller.by, by) if name))
