"""Tells the log when a store is not as it should be, before it hurts."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from ackline.maintenance.loop import NOTHING_KNOWN, Loop
from ackline.queue import Queue

logger = logging.getLogger("ackline")

REPEAT = 600.0
"""Seconds after which a trouble that lasts is told of again."""


class Watcher(Loop):
    """Asks a store how it fares, now and then; what `ackline doctor` would say is logged."""

    name = "watcher"

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        # One queue is enough to reach the store that all of them are in.
        super().__init__(queues[:1], interval)
        self._told: dict[str, float] = {}

    def look_after(self, queue: Queue[Any, Any]) -> float:
        info, now = queue.store.info(), time.monotonic()
        troubles = {trouble.what: trouble for trouble in info.troubles if trouble.grave}
        self._told = {what: at for what, at in self._told.items() if what in troubles}
        for what, trouble in troubles.items():
            if now - self._told.get(what, -REPEAT) >= REPEAT:
                self._told[what] = now
                logger.warning("%s %s: %s. %s", info.name, info.location, trouble.says, trouble.do)
        return NOTHING_KNOWN
