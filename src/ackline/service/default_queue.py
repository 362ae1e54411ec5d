"""The queue of callers that name none: it always exists, even if nothing was ever in it."""

from __future__ import annotations

from ackline.service.caller import Caller, Scope
from ackline.service.message_bodies import DEFAULT_QUEUE
from ackline.service.served_queue import ServedQueue


async def known_queue(caller: Caller, name: str, scope: Scope) -> ServedQueue:
    """A queue of messages that exists, or the default one."""
    if name == DEFAULT_QUEUE:
        return caller.queue(name, scope)
    return await caller.known_queue(name, scope)
