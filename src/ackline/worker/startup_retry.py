"""Waiting for a store that cannot be used yet."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import TRANSIENT_ERRORS, StoreClosed

logger = logging.getLogger("ackline")

RETRY_DELAYS = (0.1, 5.0)
"""Seconds between tries, the first and the last."""

T = TypeVar("T")


def retry_until_available(act: Callable[[], T], stopping: threading.Event) -> T | None:
    """Call `act` until the store can be used; None if a stop was asked for before that.

    Only where waiting can help, as while a server starts or a replica is made the primary: a wrong
    password or an unknown database is raised at once.
    """
    pauses = ExponentialDelay(*RETRY_DELAYS)
    while not stopping.is_set():
        try:
            return act()
        except StoreClosed:
            raise
        except TRANSIENT_ERRORS as error:
            pause = pauses.next()
            logger.error("%s; not started yet, trying again in %.1f s", error, pause)
            stopping.wait(pause)
    return None
