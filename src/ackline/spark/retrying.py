"""A store that is away, failing over or full for a while must not end a query."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ackline.errors import PASSING, StoreClosed
from ackline.pauses import Pauses

logger = logging.getLogger("ackline")

T = TypeVar("T")

RETRY_FOR = 60.0
"""Seconds to try again for, where no option says it."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


def retrying(act: Callable[[], T], seconds: float) -> T:
    """Call `act`, and again for up to `seconds` if its failure may pass; it must be repeatable."""
    until, pauses = time.monotonic() + seconds, Pauses(FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            return act()
        except StoreClosed:
            raise
        except PASSING as error:
            pause = pauses.next()
            if time.monotonic() + pause > until:
                raise
            logger.warning("the store cannot be used, trying again in %.1f s: %s", pause, error)
        time.sleep(pause)
