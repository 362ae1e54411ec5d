"""A queue, as producers, consumers and operators use it."""

from __future__ import annotations

from ackline.core.errors import ConfigError
from ackline.queue.base import P, R
from ackline.queue.consume import Consumer
from ackline.queue.operate import Operator
from ackline.queue.produce import Producer


class Queue(Producer[P, R], Consumer[P, R], Operator[P, R]):
    """One queue of one tenant: produce into it, consume from it, operate it.

    >>> import ackline
    >>> queue = ackline.open("memory://")["email"]
    >>> queue.enqueue({"to": "a@example.com"}, id="email-123")
    Queued(id='email-123', state=<State.QUEUED: 'queued'>)
    """


def require_queue(what: str, queue: object) -> None:
    """Raise for anything but a blocking queue; for an asyncio queue, say what to pass instead."""
    if isinstance(queue, Queue):
        return
    if isinstance(getattr(queue, "sync", None), Queue):
        raise ConfigError(f"{what} needs a blocking queue: pass queue.sync, not {queue!r}")
    raise ConfigError(f"{what} takes queues, as from ackline.open(url)[name], not {queue!r}")
