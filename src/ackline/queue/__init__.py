"""One queue: produce into it, consume from it, operate and observe it."""

from __future__ import annotations

from ackline.core.events import RecoveredBy
from ackline.queue.drafts.builder import EnqueueOptions, NewJob
from ackline.queue.handlers import Handler
from ackline.queue.job import Job, Signal, StopReason
from ackline.queue.journal.follow import Watcher
from ackline.queue.journal.reader import JournalReader, ReaderInfo
from ackline.queue.metadata.recovery_counts import Recovered, RecoveryStats
from ackline.queue.observe import JobPage
from ackline.queue.produce import Completed, Duplicate, Enqueued, Queued
from ackline.queue.queue import Queue

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
