"""Retries calls to a store that is unavailable, failing over or full."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import TRANSIENT_ERRORS, StoreClosed

logger = logging.getLogger("ackline")

T = TypeVar("T")

DEFAULT_RETRY_FOR = 60.0
"""Seconds to keep retrying if no option says otherwise."""

FIRST_DELAY, MAX_DELAY = 0.1, 5.0


def retry_transient(act: Callable[[], T], seconds: float) -> T:
    """Call `act`, and retry it for up to `seconds` on transient errors; it must be repeatable."""
    until, pauses = time.monotonic() + seconds, ExponentialDelay(FIRST_DELAY, MAX_DELAY)
    while True:
        try:
            return act()
        except StoreClosed:
            raise
        except TRANSIENT_ERRORS as error:
            pause = pauses.next()
            if time.monotonic() + pause > until:
                raise
            logger.warning("the store is unavailable, retrying in %.1f s: %s", pause, error)
        time.sleep(pause)
