"""A store that cannot be reached for a while must not end a query."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ackline.errors import StoreUnavailable

logger = logging.getLogger("ackline")

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


def retrying(act: Callable[[], T], seconds: float) -> T:
    """Do it, again and again for so long if the store cannot be reached; it must be repeatable."""
    until, pause = time.monotonic() + seconds, FIRST_PAUSE
    while True:
        try:
            return act()
        except StoreUnavailable as error:
            if time.monotonic() + pause > until:
                raise
            logger.warning("the store is not to be reached, trying again: %s", error)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
