"""Runs sync handlers on threads."""

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
"""If no job was started in `STALL_SECONDS`, or fewer than `BUSY_RATE` while the process idled,
more threads help."""

QUICK_SECONDS = 0.002
"""The next job may run inline if the last one took no more than these seconds."""

MAX_HUNG_FACTOR = 4
"""How many times the limit of threads may be occupied by handlers that do not stop."""


class ThreadExecutor(Executor):
    """Runs quick jobs on few threads, and slow ones on as many as the limit allows.

    Waking a thread for each job would cost more than a quick job itself. So one thread takes
    job after job, and only if it has taken none for a moment do others join in. A quick job that
    arrives alone is run inline, by the thread that claimed it, in the slot of an idle thread.
    """

    def __init__(self, limit: int, context: ExecutorContext) -> None:
        super().__init__(limit, context)
        self._changed = threading.Condition()
        self._idle = 0
        self._threads = 0
        self._taken = 0
        self._hung = 0
        self._too_many_hung = False
        self._thread_refused = False
        """Whether the system refused to start the last thread."""
        self._last_was_quick = False
        """Whether the last job that arrived alone was quick."""
        self._notified = 0
        """Threads that were notified, but have not woken up yet."""
        self._inline: LeasedJob | None = None
        """The job that is running inline, in the slot of an idle thread."""
        self._stopped = False
        self._stalled = threading.Event()

    def start(self) -> None:
        threading.Thread(
            target=self._add_threads_when_stalled, name="ackline thread control", daemon=True
        ).start()

    def run_inline(self, job: LeasedJob) -> bool:
        if not self._start_inline(job):
            return False
        try:
            self._check_observers()
            # First: another thread serves the queue if the job takes long after all.
            self._before_inline_run()
            self._run_timed(job)
        finally:
            self._end_inline(job)
        return True

    def submit(self, batch: Sequence[LeasedJob]) -> None:
        self._check_observers()
        self._buffer_jobs(batch)
        if not self._add_threads(1) or len(self.buffer) > 1:
            # Jobs beyond the one that a woken thread takes may get stuck behind a slow one.
            self._stalled.set()

    def interrupt(self, job: LeasedJob, reason: StopReason) -> None:
        job.signal.set(reason)

    @property
    def running_count(self) -> int:
        return self._threads - self._idle - self._hung

    @property
    def blocked_by_hung_handlers(self) -> bool:
        return self._too_many_hung

    def give_up_on(self, job: LeasedJob) -> None:
        with self._changed:
            if job.given_up or job.handler_ended:
                return
            if job is self._inline:
                # The thread in whose slot it runs is still there.
                self._idle += 1
            elif self._hung >= MAX_HUNG_FACTOR * self.limit:
                self._too_many_hung = True
                return
            else:
                self._hung += 1
            job.given_up = True
        self._add_threads(1)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._stalled.set()

    def _add_threads(self, threads: int) -> int:
        """Wake or start up to this many threads; returns how many of them were idle."""
        with self._changed:
            woken = min(threads, self._idle)
            # Now, not when they wake up: until then, they would be counted as idle.
            self._idle -= woken
            self._notified += woken
            self._changed.notify(woken)
            for _ in range(min(threads - woken, self.limit + self._hung - self._threads)):
                if not self._start_thread():
                    break
            return woken

    def _start_thread(self) -> bool:
        """Start a thread; False if the system is at its thread limit."""
        name = f"ackline handlers {self._threads + 1}"
        try:
            threading.Thread(target=self._run_thread, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._thread_refused:
                logger.warning(
                    "could not start thread %d of %d (%s): jobs wait for the running threads; "
                    "raise the thread limit of the system, or lower the concurrency",
                    self._threads + 1,
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
                # More threads help only if the running ones wait, not if they compute.
                if not taken or (taken < BUSY_RATE and busy < STALL_SECONDS / 2):
                    self._add_threads(len(self.buffer))

    def _run_thread(self) -> None:
        while not self._stopped:
            try:
                job = self.buffer.popleft()
            except IndexError:
                self._wait_for_job()
                continue
            self._taken += 1
            if self.buffer:
                self._context.copy().run(self._run, job)
            else:
                self._run_timed(job)
            if not self._keep_thread(job):
                return

    def _wait_for_job(self) -> None:
        with self._changed:
            if self.buffer or self._stopped:
                return
            self._idle += 1
            self._changed.wait_for(lambda: self._notified or self._stopped)
            if not self._stopped:
                self._notified -= 1

    def _start_inline(self, job: LeasedJob) -> bool:
        """Reserve a slot to run a job inline: only a quick one, and only one at a time."""
        if not self._last_was_quick:
            return False
        with self._changed:
            if self._inline is not None or not self._idle or self.buffer or self._stopped:
                return False
            self._inline = job
            self._idle -= 1
        return True

    def _end_inline(self, job: LeasedJob) -> None:
        with self._changed:
            job.handler_ended = True
            self._inline = None
            if not job.given_up:
                self._idle += 1
        if self.buffer:
            self._add_threads(1)

    def _run_timed(self, job: LeasedJob) -> None:
        """Run a job that arrived alone, and record whether it was quick, as the next may be."""
        started = time.monotonic()
        self._context.copy().run(self._run, job)
        self._last_was_quick = time.monotonic() - started < QUICK_SECONDS

    def _keep_thread(self, job: LeasedJob) -> bool:
        """Record that a handler ended; False if its thread was replaced meanwhile and must end."""
        if not job.stop_requested:
            # Only interrupted handlers are given up on, and not immediately.
            job.handler_ended = True
            return True
        with self._changed:
            job.handler_ended = True
            if not job.given_up:
                return True
            self._hung -= 1
            self._threads -= 1
        return False

    def _run(self, job: LeasedJob) -> None:
        if not self.may_start(job):
            return
        try:
            if self._started_jobs is not None:
                self._started_jobs.add(job)
            job.run_started = time.monotonic()
            if self.hooks.before or job.policy.timeout is not None:
                self.before_handler(job)
            function = job.handler.function
            if self._spans is None:
                result = function(job)
            else:
                result = self._spans.run(function, job, job.owning_queue.key, job.record)
        except BaseException as error:
            self.end_handler(job, None, error)
        else:
            self.end_handler(job, result, None)
