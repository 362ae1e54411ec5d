"""A job in a worker's hands."""

from __future__ import annotations

import asyncio
from typing import Any

from ackline.config import Resolved
from ackline.job import Record
from ackline.queue import Handler, Job, Queue


class Held:
    """One leased job, from its claim until it is settled or lost."""

    __slots__ = (
        "handler",
        "job",
        "lost",
        "policy",
        "queue",
        "record",
        "releasing",
        "settling",
        "task",
        "timed_out",
    )

    def __init__(
        self, queue: Queue[Any, Any], record: Record, handler: Handler, policy: Resolved
    ) -> None:
        self.queue = queue
        self.record = record
        self.handler = handler
        self.policy = policy
        self.job: Job[Any] = Job(record, queue, handler.payload_type)
        self.task: asyncio.Task[None] | None = None
        self.lost = False
        self.releasing = False
        self.settling = False
        self.timed_out = False

    @property
    def lease(self) -> float:
        """Seconds that each heartbeat asks for."""
        return self.policy.lease
