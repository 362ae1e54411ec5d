"""Logs when a store is not as it should be, before it does harm."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from ackline.maintenance.loop import AFTER_INTERVAL, MaintenanceLoop
from ackline.queue import Queue

logger = logging.getLogger("ackline")

LOG_INTERVAL = 600.0
"""Seconds after which a trouble that lasts is logged again."""


class StoreMonitor(MaintenanceLoop):
    """Asks a store for its troubles now and then, and logs what `ackline doctor` would say."""

    name = "watcher"

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        # One queue is enough to reach the store that all of them are in.
        super().__init__(queues[:1], interval)
        self._logged_at: dict[str, float] = {}

    def maintain(self, queue: Queue[Any, Any]) -> float:
        info, now = queue.store.info(), time.monotonic()
        troubles = {trouble.code: trouble for trouble in info.issues if trouble.critical}
        self._logged_at = {what: at for what, at in self._logged_at.items() if what in troubles}
        for what, trouble in troubles.items():
            if now - self._logged_at.get(what, -LOG_INTERVAL) >= LOG_INTERVAL:
                self._logged_at[what] = now
                logger.warning(
                    "%s %s: %s. %s", info.name, info.location, trouble.message, trouble.advice
                )
        return AFTER_INTERVAL
