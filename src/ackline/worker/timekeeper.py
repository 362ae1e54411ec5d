"""Does things later, such as stopping handlers whose time is up."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger("ackline")

GIVE_UP = 5.0
"""Seconds that a handler has to stop once it was told to; then it is given up."""


class Alarm:
    """Something to be done later, unless it is called off."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    @property
    def off(self) -> bool:
        """Whether there is nothing to do any more."""
        return self._action is None

    def call_off(self) -> None:
        """Do not do it, and let go of what it refers to."""
        self._action = None

    def ring(self) -> None:
        """Do it."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Timekeeper:
    """One thread, started when it is first needed."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._tidy_at = 1024

    def call_later(self, seconds: float, action: Callable[[], None]) -> Alarm:
        """Do something after this many seconds."""
        alarm = Alarm(action)
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="ackline timekeeper", daemon=True
                )
                self._thread.start()
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), alarm))
            if len(self._due) > self._tidy_at:
                self._tidy()
            self._changed.notify()
        return alarm

    def stop(self) -> None:
        """Do nothing more."""
        with self._changed:
            self._stopped = True
            self._due.clear()
            self._changed.notify()

    def _tidy(self) -> None:
        # Most jobs end long before their timeout, and leave an alarm that is off.
        self._due = [entry for entry in self._due if not entry[2].off]
        heapq.heapify(self._due)
        self._tidy_at = max(1024, 2 * len(self._due))

    def _run(self) -> None:
        while (alarm := self._next()) is not None:
            try:
                alarm.ring()
            except Exception:
                logger.exception("something that was due could not be done")

    def _next(self) -> Alarm | None:
        with self._changed:
            while not self._stopped:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
            return None
