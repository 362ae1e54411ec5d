"""A job in a worker's hands."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ackline.config import Resolved
from ackline.forks import renew_in_child
from ackline.job import Record
from ackline.queue import Handler, Job, Queue
from ackline.worker.timekeeper import Alarm

_deciding = threading.Lock()
"""Held while it is decided how a job ends. All jobs share it, because it is held briefly."""
renew_in_child(sys.modules[__name__], "_deciding")


class Held(Job[Any]):
    """One leased job, from its claim until it is settled or lost; its handler sees a `Job`."""

    __slots__ = (
        "alarm",
        "buffered_at",
        "handler",
        "holder",
        "kept_until",
        "let_go",
        "lost",
        "over",
        "policy",
        "releasing",
        "settling",
        "stepped",
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
        self.buffered_at = 0.0
        """When an executor took it in, by this process's monotonic clock; 0 before."""
        self.let_go: Callable[[], None] | None = None
        """Called by `finish`, when the outcome is stored or the job is no longer this worker's."""
        self.kept_until = 0.0
        """Until then, by the same clock, the lease is ours, even if nothing reaches the store."""
        self.lost = False
        self.over = False
        self.releasing = False
        self.settling = False
        self.stepped = False
        """Whether its task has begun to run: if cancelled before, it would never settle the job."""
        self.timed_out = False
        self.written_off = False
        """Its handler does not stop; its lane is no longer counted."""

    @property
    def told_to_stop(self) -> bool:
        """Whether its signal is set; unlike `signal`, this makes none."""
        return self._signal is not None and self._signal.is_set()

    def settle(self) -> bool:
        """Decide for this outcome; False if another came first, or the lease is lost."""
        with _deciding:
            if self.lost or self.settling:
                return False
            self.settling = True
            return True

    def lose(self) -> bool:
        """Mark the lease as lost; False if it was, or if an outcome is on its way already."""
        with _deciding:
            if self.lost or self.settling:
                return False
            self.lost = True
            return True

    def finish(self) -> None:
        """Call `let_go` only once: by a second time, the slot it frees may be another job's."""
        if self.let_go is None:
            return
        with _deciding:
            let_go, self.let_go = self.let_go, None
        if let_go is not None:
            let_go()

    def extend(self, seconds: float) -> None:
        asked_at = time.monotonic()
        super().extend(seconds)
        self.kept_until = max(self.kept_until, asked_at + seconds)

    @property
    def lease(self) -> float:
        """Seconds that each heartbeat asks for."""
        return self.policy.lease
