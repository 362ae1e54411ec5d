"""Logs the critical issues of a store, and jobs that no worker handles, before they do harm."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from ackline.core.errors import StoreForbidden
from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop
from ackline.maintenance.unhandled_kinds import find_unhandled_kinds
from ackline.queue import Queue

logger = logging.getLogger("ackline")

LOG_INTERVAL = 600.0
"""Seconds after which an issue that lasts is logged again."""


class StoreMonitor(MaintenanceLoop):
    """Logs a store's critical health issues, as `ackline doctor` shows them.

    In a worker, it also logs each kind of its queues' jobs that no live worker handles, once.
    """

    name = "store monitor"

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        # One queue is enough to reach the store, which all of them share.
        super().__init__(queues[:1], interval)
        self._logged_at: dict[str, float] = {}
        self._queues_of_worker = [queue for queue in queues if queue.handlers]
        self._logged_kinds: set[tuple[Queue[Any, Any], str]] = set()

    def maintain(self, queue: Queue[Any, Any]) -> float:
        info, now = queue.store.info(), time.monotonic()
        issues = {issue.code: issue for issue in info.issues if issue.critical}
        self._logged_at = {code: at for code, at in self._logged_at.items() if code in issues}
        for code, issue in issues.items():
            if now - self._logged_at.get(code, -LOG_INTERVAL) >= LOG_INTERVAL:
                self._logged_at[code] = now
                logger.warning(
                    "%s %s: %s. %s", info.name, info.location, issue.message, issue.advice
                )
        try:
            for worked in self._queues_of_worker:
                self._log_unhandled_kinds(worked, info.now)
        except StoreForbidden:
            self._queues_of_worker = []  # a token for work only may not list jobs
        return AFTER_INTERVAL

    def _log_unhandled_kinds(self, queue: Queue[Any, Any], now: float) -> None:
        alive = [worker for worker in queue.workers() if worker.expires_at > now]
        if not alive:
            return  # the heartbeat of this worker is late, or it is stopping
        for found in find_unhandled_kinds(queue, alive):
            if (queue, found.kind) not in self._logged_kinds:
                self._logged_kinds.add((queue, found.kind))
                logger.warning(
                    "queue %s: no live worker has a handler for kind %r; jobs waiting: %s%d",
                    queue.key,
                    found.kind,
                    "at least " if found.may_have_more else "",
                    found.jobs,
                    extra={"queue": str(queue.key), "kind": found.kind},
                )
