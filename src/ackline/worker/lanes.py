"""Sync handlers: lanes of threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from ackline.queue import StopReason
from ackline.worker.executor import Executor, Setting
from ackline.worker.held import Held

logger = logging.getLogger("ackline")

STALL, BRISK = 0.002, 20
"""If no job was taken up in `STALL` seconds, or fewer than `BRISK` while the process idled, more
lanes help."""

QUICK = 0.002
"""Seconds that the last job may have taken at most, for the next one to be run inline."""

MOST_HANGING = 4
"""How many times the limit of lanes may hang in handlers that do not stop."""


class ThreadExecutor(Executor):
    """Lanes of threads. Quick handlers share few lanes, slow ones get as many as allowed.

    Waking a thread for each job would cost more than a quick job itself. So one lane takes
    job after job, and only when it has taken none for a moment do others join in. A quick job
    that comes alone is run inline, by the thread that claimed it, in the place of an idle lane.
    """

    def __init__(self, limit: int, setting: Setting) -> None:
        super().__init__(limit, setting)
        self._work = threading.Condition()
        self._idle = 0
        self._lanes = 0
        self._taken = 0
        self._hanging = 0
        self._refused = False
        """Whether the system had no thread for the last lane that was wanted."""
        self._quick = False
        """Whether the last job that came alone was quick."""
        self._called = 0
        """Lanes that still wait, but have been called already."""
        self._inline: Held | None = None
        """The job that is run inline, in the place of an idle lane."""
        self._stopped = False
        self._stalled = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch_stall, name="ackline lanes", daemon=True).start()

    def run_alone(self, held: Held) -> bool:
        if not self._take_place(held):
            return False
        try:
            self._see_whether_to_trace()
            # First of all: if the job takes long after all, another thread serves the queue.
            self._before_running()
            self._run_timed(held)
        finally:
            self._return_place(held)
        return True

    def submit(self, batch: Sequence[Held]) -> None:
        self._see_whether_to_trace()
        self._take_in(batch)
        if not self._engage(1) or len(self.buffer) > 1:
            # Jobs beyond the one that a woken lane takes may get stuck behind a slow one.
            self._stalled.set()

    def interrupt(self, held: Held, reason: StopReason) -> None:
        held.signal.set(reason)

    @property
    def busy(self) -> int:
        return self._lanes - self._idle - self._hanging

    def write_off(self, held: Held) -> None:
        with self._work:
            if held.written_off or held.over:
                return
            if held is self._inline:
                # The lane in whose place it runs is still there.
                self._idle += 1
            elif self._hanging >= MOST_HANGING * self.limit:
                self.stuck = True
                return
            else:
                self._hanging += 1
            held.written_off = True
        self._engage(1)

    def stop(self) -> None:
        with self._work:
            self._stopped = True
            self._work.notify_all()
        self._stalled.set()

    def _engage(self, lanes: int) -> int:
        """Have up to `lanes` more lanes take up jobs; returns how many of them were idle."""
        with self._work:
            woken = min(lanes, self._idle)
            # Now, not when they wake: until then, they would be counted as idle.
            self._idle -= woken
            self._called += woken
            self._work.notify(woken)
            for _ in range(min(lanes - woken, self.limit + self._hanging - self._lanes)):
                if not self._add_lane():
                    break
            return woken

    def _add_lane(self) -> bool:
        """Start a lane; False if the system, at its limit of threads, refuses it for now."""
        name = f"ackline lane {self._lanes + 1}"
        try:
            threading.Thread(target=self._lane, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._refused:
                logger.warning(
                    "a worker with %d of %d threads gets no more (%s): its jobs wait for those it "
                    "has; raise the limit of the system, or lower the concurrency",
                    self._lanes,
                    self.limit,
                    error,
                )
            self._refused = True
            return False
        self._refused = False
        self._lanes += 1
        return True

    def _watch_stall(self) -> None:
        while not self._stopped:
            self._stalled.wait()
            self._stalled.clear()
            while self.buffer and not self._stopped:
                taken, busy = self._taken, time.process_time()
                time.sleep(STALL)
                taken, busy = self._taken - taken, time.process_time() - busy
                # More lanes gain nothing while the present ones compute, but do while these wait.
                if not taken or (taken < BRISK and busy < STALL / 2):
                    self._engage(len(self.buffer))

    def _lane(self) -> None:
        while not self._stopped:
            try:
                held = self.buffer.popleft()
            except IndexError:
                self._rest()
                continue
            self._taken += 1
            if self.buffer:
                self._context.copy().run(self._run, held)
            else:
                self._run_timed(held)
            if not self._free_lane(held):
                return

    def _rest(self) -> None:
        with self._work:
            if self.buffer or self._stopped:
                return
            self._idle += 1
            self._work.wait_for(lambda: self._called or self._stopped)
            if not self._stopped:
                self._called -= 1

    def _take_place(self, held: Held) -> bool:
        """Whether a job may be run inline: only a quick one, and only one at a time."""
        if not self._quick:
            return False
        with self._work:
            if self._inline is not None or not self._idle or self.buffer or self._stopped:
                return False
            self._inline = held
            self._idle -= 1
        return True

    def _return_place(self, held: Held) -> None:
        with self._work:
            held.over = True
            self._inline = None
            if not held.written_off:
                self._idle += 1
        if self.buffer:
            self._engage(1)

    def _run_timed(self, held: Held) -> None:
        """Run a job that came alone, and note whether it was quick, as the next may be."""
        began = time.monotonic()
        self._context.copy().run(self._run, held)
        self._quick = time.monotonic() - began < QUICK

    def _free_lane(self, held: Held) -> bool:
        """A handler has ended; False if this lane was replaced meanwhile and so must end."""
        if not held.told_to_stop:
            # Only a handler that was told to stop is written off, and not at once.
            held.over = True
            return True
        with self._work:
            held.over = True
            if not held.written_off:
                return True
            self._hanging -= 1
            self._lanes -= 1
        return False

    def _run(self, held: Held) -> None:
        if not self.may_begin(held):
            return
        try:
            if self._board is not None:
                self._board.begin(held)
            if self.hooks.before or held.policy.timeout is not None:
                self.before(held)
            function = held.handler.function
            if self._spans is None:
                result = function(held)
            else:
                result = self._spans.run(function, held, held.holder.key, held.record)
        except BaseException as error:
            self.ended(held, None, error)
        else:
            self.ended(held, result, None)
