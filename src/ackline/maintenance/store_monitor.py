"""Logs the critical issues of a store, before they do harm."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop
from ackline.queue import Queue

logger = logging.getLogger("ackline")

LOG_INTERVAL = 600.0
"""Seconds after which an issue that lasts is logged again."""


class StoreMonitor(MaintenanceLoop):
    """Logs a store's critical health issues, as `ackline doctor` shows them."""

    name = "store monitor"

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        # One queue is enough to reach the store, which all of them share.
        super().__init__(queues[:1], interval)
        self._logged_at: dict[str, float] = {}

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
        return AFTER_INTERVAL
