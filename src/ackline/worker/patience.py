"""Waiting for a store that cannot be reached yet."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from ackline.errors import StoreClosed, StoreUnavailable

logger = logging.getLogger("ackline")

FIRST_RETRY, LAST_RETRY = 0.1, 5.0
"""Seconds between tries: doubled each time, up to the last."""

T = TypeVar("T")


def keep_trying(act: Callable[[], T], stopping: threading.Event) -> T | None:
    """Call `act` until the store can be reached; None if a stop was asked for before that.

    Only where waiting can help: a wrong password or an unknown database is raised at once.
    """
    retry = FIRST_RETRY
    while not stopping.is_set():
        try:
            return act()
        except StoreClosed:
            raise
        except StoreUnavailable as error:
            logger.error("%s; not started yet, trying again in %.1f s", error, retry)
        stopping.wait(retry)
        retry = min(LAST_RETRY, 2 * retry)
    return None
