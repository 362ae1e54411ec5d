"""Stops handlers whose time is up."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import Protocol

from ackline.queue import StopReason
from ackline.worker.held import Held

GIVE_UP = 5.0
"""Seconds that a handler has to stop after its timeout; then the job is settled without it."""


class Runner(Protocol):
    """What runs a job, and can interrupt it."""

    def interrupt(self, held: Held, reason: StopReason) -> None: ...

    def abandon(self, held: Held) -> None: ...


class Timekeeper:
    """One thread that watches the clocks of all jobs that have a timeout."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Held, Runner]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def watch(self, held: Held, seconds: float, runner: Runner) -> None:
        """Interrupt a job when its time is up."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="ackline timeouts", daemon=True
                )
                self._thread.start()
            self._push(time.monotonic() + seconds, held, runner)
            self._changed.notify()

    def stop(self) -> None:
        """Watch no more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _push(self, due: float, held: Held, runner: Runner) -> None:
        heapq.heappush(self._due, (due, next(self._order), held, runner))

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                due, _, held, runner = heapq.heappop(self._due)
            if not held.lost and not held.settling:
                self._strike(due, held, runner)

    def _strike(self, due: float, held: Held, runner: Runner) -> None:
        if held.timed_out:
            runner.abandon(held)
            return
        held.timed_out = True
        runner.interrupt(held, StopReason.TIMEOUT)
        with self._changed:
            self._push(due + GIVE_UP, held, runner)
