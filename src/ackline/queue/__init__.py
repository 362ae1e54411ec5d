"""A queue, as producers, consumers and operators use it."""

from __future__ import annotations

from ackline.errors import ConfigError
from ackline.queue.base import P, R
from ackline.queue.consumer import Consumer
from ackline.queue.drafting import EnqueueOptions, NewJob
from ackline.queue.handlers import Handler
from ackline.queue.job import Job, Signal, StopReason
from ackline.queue.observer import JobPage
from ackline.queue.operator import Operator
from ackline.queue.producer import Completed, Duplicate, Enqueued, Producer, Queued
from ackline.queue.reader import JournalReader, ReaderInfo
from ackline.queue.recovery import Recovered, RecoveryStats, Way
from ackline.queue.watching import Watcher

__all__ = [
    "Completed",
    "Duplicate",
    "EnqueueOptions",
    "Enqueued",
    "Handler",
    "Job",
    "JobPage",
    "JournalReader",
    "NewJob",
    "Queue",
    "Queued",
    "ReaderInfo",
    "Recovered",
    "RecoveryStats",
    "Signal",
    "StopReason",
    "Watcher",
    "Way",
]


class Queue(Producer[P, R], Consumer[P, R], Operator[P, R]):
    """One queue of one tenant: produce into it, consume from it, operate it.

    >>> import ackline
    >>> queue = ackline.open("memory://")["email"]
    >>> queue.enqueue({"to": "a@example.com"}, id="email-123")
    Queued(id='email-123', state=<State.QUEUED: 'queued'>)
    """


def require_queue(what: str, queue: object) -> None:
    """Refuse anything but a blocking queue; for an asyncio queue, say what to pass instead."""
    if isinstance(queue, Queue):
        return
    if isinstance(getattr(queue, "sync", None), Queue):
        raise ConfigError(f"{what} needs a blocking queue: pass queue.sync, not {queue!r}")
    raise ConfigError(f"{what} takes queues, as from ackline.open(url)[name], not {queue!r}")
