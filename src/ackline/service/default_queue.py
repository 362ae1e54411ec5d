"""The queue of callers that name none: it always exists, even if nothing was ever in it."""

from __future__ import annotations

from ackline.service.auth.authorization import Access
from ackline.service.auth.caller import Caller
from ackline.service.message_bodies import DEFAULT_QUEUE
from ackline.service.served_queue import ServedQueue


async def known_queue(caller: Caller, name: str, access: Access) -> ServedQueue:
    """A queue of messages that exists, or the default one."""
    if name == DEFAULT_QUEUE:
        return caller.queue(name, access)
    return await caller.known_queue(name, access)
