"""A job in a worker's hands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ackline.config import Resolved
from ackline.job import Record
from ackline.queue import Handler, Job, Queue
from ackline.worker.timekeeper import Alarm


class Held(Job[Any]):
    """One leased job, from its claim until it is settled or lost; its handler sees a `Job`."""

    __slots__ = (
        "alarm",
        "handler",
        "holder",
        "kept_until",
        "let_go",
        "lost",
        "over",
        "policy",
        "releasing",
        "settling",
        "since",
        "task",
        "timed_out",
        "written_off",
    )

    def __init__(
        self, queue: Queue[Any, Any], record: Record, handler: Handler, policy: Resolved
    ) -> None:
        super().__init__(record, queue, handler.payload_type)
        self.holder = queue
        self.handler = handler
        self.policy = policy
        self.task: asyncio.Task[None] | None = None
        self.alarm: Alarm | None = None
        self.since = 0.0
        """When it came in, by this process's monotonic clock."""
        self.let_go: Callable[[], None] | None = None
        """To be called when what became of it is stored, or is somebody else's business."""
        self.kept_until = 0.0
        """Until then, by the same clock, the lease is ours, even if nothing reaches the store."""
        self.lost = False
        self.over = False
        self.releasing = False
        self.settling = False
        self.timed_out = False
        self.written_off = False
        """Its handler does not stop; its lane is no longer counted."""

    def extend(self, seconds: float) -> None:
        asked_at = time.monotonic()
        super().extend(seconds)
        self.kept_until = max(self.kept_until, asked_at + seconds)

    @property
    def lease(self) -> float:
        """Seconds that each heartbeat asks for."""
        return self.policy.lease
