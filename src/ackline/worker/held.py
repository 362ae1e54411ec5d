"""A job in a worker's hands."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ackline.core.config import ResolvedPolicy
from ackline.core.fork_safety import renew_locks_after_fork
from ackline.core.job import Record
from ackline.queue import Handler, Job, Queue
from ackline.worker.timers import Timer

_decision_lock = threading.Lock()
"""Held while it is decided how a job ends. All jobs share it, because it is held briefly."""
renew_locks_after_fork(sys.modules[__name__], "_deciding")


class LeasedJob(Job[Any]):
    """One leased job, from its claim until it is settled or lost; its handler sees a `Job`."""

    __slots__ = (
        "buffered_at",
        "given_up",
        "handler",
        "handler_ended",
        "home_queue",
        "leased_until",
        "lost",
        "on_forgotten",
        "policy",
        "release_requested",
        "settling",
        "task",
        "task_started",
        "timed_out",
        "timeout_timer",
    )

    def __init__(
        self, queue: Queue[Any, Any], record: Record, handler: Handler, policy: ResolvedPolicy
    ) -> None:
        super().__init__(record, queue, handler.payload_type)
        self.home_queue = queue
        self.handler = handler
        self.policy = policy
        self.task: asyncio.Task[None] | None = None
        self.timeout_timer: Timer | None = None
        self.buffered_at = 0.0
        """When an executor took it in, by this process's monotonic clock; 0 before."""
        self.on_forgotten: Callable[[], None] | None = None
        """Called by `finish`, when the outcome is stored or the job is no longer this worker's."""
        self.leased_until = 0.0
        """Until then, by the same clock, the lease is ours, even if nothing reaches the store."""
        self.lost = False
        self.handler_ended = False
        self.release_requested = False
        self.settling = False
        self.task_started = False
        """Whether its task has begun to run: if cancelled before, it would never settle the job."""
        self.timed_out = False
        self.given_up = False
        """Its handler does not stop; its lane is no longer counted."""

    @property
    def stop_requested(self) -> bool:
        """Whether its signal is set; unlike `signal`, this makes none."""
        return self._signal is not None and self._signal.is_set()

    def claim_settling(self) -> bool:
        """Decide for this outcome; False if another came first, or the lease is lost."""
        with _decision_lock:
            if self.lost or self.settling:
                return False
            self.settling = True
            return True

    def mark_lost(self) -> bool:
        """Mark the lease as lost; False if it was, or if an outcome is on its way already."""
        with _decision_lock:
            if self.lost or self.settling:
                return False
            self.lost = True
            return True

    def forget(self) -> None:
        """Call `let_go` only once: by a second time, the slot it frees may be another job's."""
        if self.on_forgotten is None:
            return
        with _decision_lock:
            let_go, self.on_forgotten = self.on_forgotten, None
        if let_go is not None:
            let_go()

    def extend(self, seconds: float) -> None:
        asked_at = time.monotonic()
        super().extend(seconds)
        self.leased_until = max(self.leased_until, asked_at + seconds)

    @property
    def lease(self) -> float:
        """Seconds that each heartbeat asks for."""
        return self.policy.lease
