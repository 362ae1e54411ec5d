"""Waits at the start until a store is available."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import TRANSIENT_ERRORS, StoreClosed

logger = logging.getLogger("ackline")

RETRY_DELAYS = (0.1, 5.0)
"""First and longest delay in seconds between tries."""

T = TypeVar("T")


def retry_until_available(start: Callable[[], T], stopping: threading.Event) -> T | None:
    """Call `start` until the store is available; None if `stopping` was set before that.

    Only errors that may pass are retried, as while a server starts or a replica is promoted: a
    wrong password or an unknown database is raised at once.
    """
    delays = ExponentialDelay(*RETRY_DELAYS)
    while not stopping.is_set():
        try:
            return start()
        except StoreClosed:
            raise
        except TRANSIENT_ERRORS as error:
            delay = delays.next()
            logger.error("%s; not started yet, retrying in %.1f s", error, delay)
            stopping.wait(delay)
    return None
