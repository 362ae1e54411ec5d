"""A queue, as producers, consumers and operators use it."""

from __future__ import annotations

from ackline.core.errors import ConfigError
from ackline.queue.base import P, R
from ackline.queue.consume import Consumer
from ackline.queue.drafts.builder import EnqueueOptions, NewJob
from ackline.queue.handlers import Handler
from ackline.queue.job import Job, Signal, StopReason
from ackline.queue.journal.follow import Watcher
from ackline.queue.journal.reader import JournalReader, ReaderInfo
from ackline.queue.metadata.recovery_counts import Recovered, RecoveredBy, RecoveryStats
from ackline.queue.observe import JobPage
from ackline.queue.operate import Operator
from ackline.queue.produce import Completed, Duplicate, Enqueued, Producer, Queued

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
    "RecoveredBy",
    "RecoveryStats",
    "Signal",
    "StopReason",
    "Watcher",
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
