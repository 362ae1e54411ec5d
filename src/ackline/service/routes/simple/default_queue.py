"""The queue of callers that name none: it always exists, even if nothing was ever in it."""

from __future__ import annotations

from ackline.service.auth.caller import Caller
from ackline.service.auth.permissions import Permission
from ackline.service.queues import MeteredQueue
from ackline.service.routes.simple.bodies import DEFAULT_QUEUE


async def existing_or_default_queue(caller: Caller, name: str, access: Permission) -> MeteredQueue:
    """A queue of messages that exists, or the default one."""
    if name == DEFAULT_QUEUE:
        return caller.queue(name, access)
    return await caller.existing_queue(name, access)
