"""Timers, such as those that stop handlers after their timeout."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("ackline")

STOP_TIMEOUT = 5.0
"""Seconds that an interrupted handler has to stop before the worker gives up on it."""


class Timer:
    """A call at a later time, unless it is cancelled."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, or has run."""
        return self._action is None

    def cancel(self) -> None:
        """Do not run it, and release what it refers to."""
        self._action = None

    def run(self) -> None:
        """Call it."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Timers:
    """Runs timers in one thread, which starts when it is first needed."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._drop_cancelled_at = 1024

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Call `action` after this many seconds."""
        timer = Timer(action)
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="ackline timers", daemon=True
                )
                self._thread.start()
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), timer))
            if len(self._due) > self._drop_cancelled_at:
                self._drop_cancelled()
            self._changed.notify()
        return timer

    def stop(self) -> None:
        """Cancel all timers."""
        with self._changed:
            self._stopped = True
            self._due.clear()
            self._changed.notify()

    def _drop_cancelled(self) -> None:
        # Most jobs end long before their timeout, and leave a cancelled timer.
        self._due = [entry for entry in self._due if not entry[2].cancelled]
        heapq.heapify(self._due)
        self._drop_cancelled_at = max(1024, 2 * len(self._due))

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            try:
                timer.run()
            except Exception:
                logger.exception("a timer failed")

    def _next(self) -> Timer | None:
        with self._changed:
            while not self._stopped:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
            return None
