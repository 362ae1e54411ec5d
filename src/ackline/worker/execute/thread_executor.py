"""Sync handlers: lanes of threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from ackline.queue import StopReason
from ackline.worker.execute.executor import Executor, ExecutorContext
from ackline.worker.leased_jobs import LeasedJob

logger = logging.getLogger("ackline")

STALL_SECONDS, BUSY_RATE = 0.002, 20
"""If no job was taken up in `STALL` seconds, or fewer than `BRISK` while the process idled, more
lanes help."""

QUICK_SECONDS = 0.002
"""Seconds that the last job may have taken at most, for the next one to be run inline."""

MAX_HUNG_FACTOR = 4
"""How many times the limit of lanes may hang in handlers that do not stop."""


class ThreadExecutor(Executor):
    """Lanes of threads. Quick handlers share few lanes, slow ones get as many as allowed.

    Waking a thread for each job would cost more than a quick job itself. So one lane takes
    job after job, and only when it has taken none for a moment do others join in. A quick job
    that comes alone is run inline, by the thread that claimed it, in the place of an idle lane.
    """

    def __init__(self, limit: int, setting: ExecutorContext) -> None:
        super().__init__(limit, setting)
        self._work = threading.Condition()
        self._idle = 0
        self._threads = 0
        self._taken = 0
        self._hung = 0
        self._thread_refused = False
        """Whether the system had no thread for the last lane that was wanted."""
        self._last_was_quick = False
        """Whether the last job that came alone was quick."""
        self._notified = 0
        """Lanes that still wait, but have been called already."""
        self._inline: LeasedJob | None = None
        """The job that is run inline, in the place of an idle lane."""
        self._stopped = False
        self._stalled = threading.Event()

    def start(self) -> None:
        threading.Thread(
            target=self._add_threads_when_stalled, name="ackline lanes", daemon=True
        ).start()

    def run_inline(self, held: LeasedJob) -> bool:
        if not self._start_inline(held):
            return False
        try:
            self._check_tracing()
            # First of all: if the job takes long after all, another thread serves the queue.
            self._before_running()
            self._run_timed(held)
        finally:
            self._end_inline(held)
        return True

    def submit(self, batch: Sequence[LeasedJob]) -> None:
        self._check_tracing()
        self._buffer_jobs(batch)
        if not self._add_threads(1) or len(self.buffer) > 1:
            # Jobs beyond the one that a woken lane takes may get stuck behind a slow one.
            self._stalled.set()

    def interrupt(self, held: LeasedJob, reason: StopReason) -> None:
        held.signal.set(reason)

    @property
    def running_count(self) -> int:
        return self._threads - self._idle - self._hung

    def give_up_on(self, held: LeasedJob) -> None:
        with self._work:
            if held.given_up or held.handler_ended:
                return
            if held is self._inline:
                # The lane in whose place it runs is still there.
                self._idle += 1
            elif self._hung >= MAX_HUNG_FACTOR * self.limit:
                self.blocked_by_hung_handlers = True
                return
            else:
                self._hung += 1
            held.given_up = True
        self._add_threads(1)

    def stop(self) -> None:
        with self._work:
            self._stopped = True
            self._work.notify_all()
        self._stalled.set()

    def _add_threads(self, threads: int) -> int:
        """Have up to `lanes` more lanes take up jobs; returns how many of them were idle."""
        with self._work:
            woken = min(threads, self._idle)
            # Now, not when they wake: until then, they would be counted as idle.
            self._idle -= woken
            self._notified += woken
            self._work.notify(woken)
            for _ in range(min(threads - woken, self.limit + self._hung - self._threads)):
                if not self._start_thread():
                    break
            return woken

    def _start_thread(self) -> bool:
        """Start a lane; False if the system, at its limit of threads, refuses it for now."""
        name = f"ackline lane {self._threads + 1}"
        try:
            threading.Thread(target=self._run_thread, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._thread_refused:
                logger.warning(
                    "a worker with %d of %d threads gets no more (%s): its jobs wait for those it "
                    "has; raise the limit of the system, or lower the concurrency",
                    self._threads,
                    self.limit,
                    error,
                )
            self._thread_refused = True
            return False
        self._thread_refused = False
        self._threads += 1
        return True

    def _add_threads_when_stalled(self) -> None:
        while not self._stopped:
            self._stalled.wait()
            self._stalled.clear()
            while self.buffer and not self._stopped:
                taken, busy = self._taken, time.process_time()
                time.sleep(STALL_SECONDS)
                taken, busy = self._taken - taken, time.process_time() - busy
                # More lanes gain nothing while the present ones compute, but do while these wait.
                if not taken or (taken < BUSY_RATE and busy < STALL_SECONDS / 2):
                    self._add_threads(len(self.buffer))

    def _run_thread(self) -> None:
        while not self._stopped:
            try:
                held = self.buffer.popleft()
            except IndexError:
                self._wait_for_job()
                continue
            self._taken += 1
            if self.buffer:
                self._context.copy().run(self._run, held)
            else:
                self._run_timed(held)
            if not self._keep_thread(held):
                return

    def _wait_for_job(self) -> None:
        with self._work:
            if self.buffer or self._stopped:
                return
            self._idle += 1
            self._work.wait_for(lambda: self._notified or self._stopped)
            if not self._stopped:
                self._notified -= 1

    def _start_inline(self, held: LeasedJob) -> bool:
        """Whether a job may be run inline: only a quick one, and only one at a time."""
        if not self._last_was_quick:
            return False
        with self._work:
            if self._inline is not None or not self._idle or self.buffer or self._stopped:
                return False
            self._inline = held
            self._idle -= 1
        return True

    def _end_inline(self, held: LeasedJob) -> None:
        with self._work:
            held.handler_ended = True
            self._inline = None
            if not held.given_up:
                self._idle += 1
        if self.buffer:
            self._add_threads(1)

    def _run_timed(self, held: LeasedJob) -> None:
        """Run a job that came alone, and note whether it was quick, as the next may be."""
        began = time.monotonic()
        self._context.copy().run(self._run, held)
        self._last_was_quick = time.monotonic() - began < QUICK_SECONDS

    def _keep_thread(self, held: LeasedJob) -> bool:
        """A handler has ended; False if this lane was replaced meanwhile and so must end."""
        if not held.stop_requested:
            # Only a handler that was told to stop is written off, and not at once.
            held.handler_ended = True
            return True
        with self._work:
            held.handler_ended = True
            if not held.given_up:
                return True
            self._hung -= 1
            self._threads -= 1
        return False

    def _run(self, held: LeasedJob) -> None:
        if not self.may_start(held):
            return
        try:
            if self._started_jobs is not None:
                self._started_jobs.add(held)
            if self.hooks.before or held.policy.timeout is not None:
                self.before_handler(held)
            function = held.handler.function
            if self._spans is None:
                result = function(held)
            else:
                result = self._spans.run(function, held, held.home_queue.key, held.record)
        except BaseException as error:
            self.end_handler(held, None, error)
        else:
            self.end_handler(held, result, None)
