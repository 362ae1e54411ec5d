"""One small duty, done again and again for some queues, in a thread of its own."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ackline.errors import PASSING, ConfigError
from ackline.pauses import Pauses
from ackline.queue import Queue

logger = logging.getLogger("ackline")

NOTHING_KNOWN = math.inf
"""What `look_after` returns when the usual interval will do."""

RETRIES = (0.1, 30.0)
"""Seconds before a loop that failed goes on: doubled each time, up to the last."""


class LoopStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a loop has done so far; `last_run` is None before its first."""

    name: str
    runs: int
    failures: int
    last_run: float | None
    last_error: str
    done: Mapping[str, int]
    """How many of what: promoted, expired, dead_lettered, pruned, fired."""


class Loop(ABC):
    """Every process may run one: what two do at once, the store's compare-and-set keeps apart.

    No loop listens to its store: where a wake-up for a claimable job goes to one waiter only,
    a loop would take it from the workers.
    """

    name: ClassVar[str]
    counts: ClassVar[tuple[str, ...]] = ()
    """What it counts: 0 until it happens, because a figure that is not there cannot rise."""

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        if not interval > 0:
            raise ConfigError(f"the {self.name} needs an interval above 0 s, not {interval!r}")
        self.queues = tuple(queues)
        self.interval = interval
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._random = random.Random()
        self._done = dict.fromkeys(self.counts, 0)
        self._runs = 0
        self._failures = 0
        self._last_run: float | None = None
        self._last_error = ""

    @abstractmethod
    def look_after(self, queue: Queue[Any, Any]) -> float:
        """Do what is due; returns in how many seconds there is more, or `NOTHING_KNOWN`."""

    def due(self) -> Sequence[Queue[Any, Any]]:
        """The queues that a step looks after: all, unless it is known where nothing is to do."""
        return self.queues

    def step(self) -> float:
        """Look after every queue once; returns in how many seconds to do so again.

        One queue's trouble keeps nobody from the others: it is raised at the end.
        """
        pause, errors = self.interval, list[Exception]()
        for queue in self._due(errors):
            try:
                pause = min(pause, self.look_after(queue))
            except Exception as error:
                error.add_note(f"{self.name} of queue {queue.key}")
                errors.append(error)
        self._runs += 1
        self._last_run = time.time()
        if errors:
            self._failures += 1
            self._last_error = repr(errors[0])
            raise ExceptionGroup(f"the {self.name} failed", errors)
        return max(0.0, pause)

    def _due(self, errors: list[Exception]) -> Sequence[Queue[Any, Any]]:
        try:
            return self.due()
        except Exception as error:
            errors.append(error)
            return ()

    def start(self) -> None:
        """Run in a thread until `stop`."""
        if self._thread is None:
            # Each thread has its own flag: one that outlives its stop cannot be revived.
            self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=[self._stopping], name=f"ackline {self.name}", daemon=True
            )
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End after the step that is under way."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        if thread is None or thread is threading.current_thread():
            return
        thread.join(timeout)
        if thread.is_alive():
            logger.warning("the %s still hangs in its step %g s after its stop", self.name, timeout)

    def stats(self) -> LoopStats:
        """What it has done so far."""
        return LoopStats(
            name=self.name,
            runs=self._runs,
            failures=self._failures,
            last_run=self._last_run,
            last_error=self._last_error,
            done=dict(self._done),
        )

    def count(self, what: str, how_many: int) -> None:
        """Note that so much was done."""
        self._done[what] = self._done.get(what, 0) + how_many

    def _run(self, stopping: threading.Event) -> None:
        pauses = Pauses(*RETRIES)
        while not stopping.is_set():
            try:
                pause = self._jittered(self.step())
                pauses.reset()
            except Exception as error:
                pause = pauses.next() * self._random.uniform(0.5, 1.0)
                self._tell_of(error, pause)
            stopping.wait(pause)

    def _tell_of(self, error: Exception, pause: float) -> None:
        causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
        # Where a store is away, how the call got there says nothing, and once is enough.
        passing = all(isinstance(cause, PASSING) for cause in causes)
        what = "; ".join(dict.fromkeys(map(str, causes)))
        message = "the %s failed: %s; it goes on in %.1f s"
        logger.error(message, self.name, what, pause, exc_info=None if passing else error)

    def _jittered(self, pause: float) -> float:
        """Spread the processes of a fleet; a moment that is known to the point is kept."""
        return pause * self._random.uniform(0.8, 1.0) if pause == self.interval else pause
