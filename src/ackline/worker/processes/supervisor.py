"""Supervises worker processes: restarts those that die or hang, and takes back their jobs."""

from __future__ import annotations

import contextlib
import logging
import queue as _queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import ConfigError
from ackline.maintenance.reaper import expire_worker
from ackline.queue import Queue
from ackline.queue.consume import new_worker_id
from ackline.worker.heartbeat import HEARTBEAT_TTL
from ackline.worker.processes.child_process import PING_INTERVAL, ChildProcess
from ackline.worker.processes.started_jobs import StartedJobs
from ackline.worker.processes.stop_signals import handle_stop_signals

logger = logging.getLogger("ackline")

MIN_UPTIME = 5.0
"""Seconds; a process that exits sooner is restarted after a delay."""

RESTART_DELAYS = (0.1, 10.0)
"""First and longest delay in seconds before such a process is restarted."""

PING_TIMEOUT = 3 * HEARTBEAT_TTL
"""Seconds without a ping after which a process counts as hung; its leases expire long before."""

KILL_AFTER_GRACE = 10.0
"""Seconds after its grace period at which a process that has not stopped is killed."""

SECOND_SIGNAL_TIMEOUT = 3.0
"""Seconds that a process has to stop after a second signal, and then to take back its jobs."""


class Supervisor:
    """Keeps `processes` workers running until it is stopped.

    `command` returns the command line for a worker id, `grace` is how long a worker may take to
    stop, and `pass_fds` are the files that it inherits. `queues` is iterated again for each dead
    child. The supervisor claims no jobs itself; it notices the exit of a child within milliseconds
    and expires its leases, so that nobody has to wait for their deadlines. Children that run
    handlers mark the jobs they have started: the exit costs the other jobs no attempt.

    `config_error_status` is the exit status by which a child says that its configuration is wrong.
    If the first processes exit so before any has worked, a restart would not help: `run` stops the
    others and raises `ConfigError`.
    """

    def __init__(
        self,
        queues: Iterable[Queue[Any, Any]],
        command: Callable[[str], Sequence[str]],
        *,
        processes: int,
        grace: float = 30.0,
        pass_fds: Sequence[int] = (),
        runs_handlers: bool = True,
        config_error_status: int | None = None,
    ) -> None:
        self._queues = queues
        self._command = command
        self._processes = processes
        self._grace = grace
        self._pass_fds = pass_fds
        self._runs_handlers = runs_handlers
        self._config_error_status = config_error_status
        self._has_worked = False
        """Whether any process has got as far as to run jobs."""
        self._is_misconfigured = False
        self._children: dict[str, ChildProcess] = {}
        self._callbacks: _queue.SimpleQueue[Callable[[], None]] = _queue.SimpleQueue()
        self._check_at = 0.0
        self._stopping = threading.Event()
        self._exiting = False
        self._restart_delay = ExponentialDelay(*RESTART_DELAYS)

    def run(self) -> None:
        """Supervise until SIGTERM, SIGINT or SIGHUP; returns when all children have exited."""
        restore_signals = handle_stop_signals(self._on_signal)
        try:
            for _ in range(self._processes):
                self._spawn()
            while not self._exiting and (self._children or not self._stopping.is_set()):
                self._next_callback()()
        finally:
            restore_signals()
        if self._is_misconfigured:
            raise ConfigError("the worker processes cannot start: see the error above")

    def _next_callback(self) -> Callable[[], None]:
        try:
            return self._callbacks.get(timeout=max(0.0, self._check_at - time.monotonic()))
        except _queue.Empty:
            return self._check_children

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back in the main loop after some seconds, without blocking it."""
        timer = threading.Timer(
            min(seconds, threading.TIMEOUT_MAX), self._callbacks.put, [callback]
        )
        timer.daemon = True
        timer.start()

    # --- one child ---

    def _spawn(self) -> None:
        if self._stopping.is_set():
            return
        id = new_worker_id()
        started_jobs = StartedJobs() if self._runs_handlers else None
        child = self._children[id] = ChildProcess(
            id, self._command(id), self._pass_fds, started_jobs
        )
        threading.Thread(target=self._wait_for_exit, args=(child,), daemon=True).start()
        if self._stopping.is_set():
            # The signal arrived while the child was being started, so it was not sent to it.
            child.send_signal(signal.SIGTERM)

    def _wait_for_exit(self, child: ChildProcess) -> None:
        child.process.wait()
        self._callbacks.put(lambda: self._restart(child))
        # In this thread: an unavailable store must delay neither restarts nor the shutdown.
        self._recover_jobs(child)
        self._callbacks.put(lambda: self._remove_child(child))

    def _restart(self, child: ChildProcess) -> None:
        if self._stopping.is_set():
            return
        logger.warning("worker process %d %s", child.process.pid, child.exit_reason)
        # The child that has exited is still among them.
        self._has_worked |= any(each.has_worked for each in self._children.values())
        if child.process.returncode == self._config_error_status and not self._has_worked:
            self._is_misconfigured = True
            self._on_signal(signal.SIGTERM)
            return
        if time.monotonic() - child.started > MIN_UPTIME:
            self._restart_delay.reset()
            self._spawn()
        else:
            self._call_later(self._restart_delay.next(), self._spawn)

    def _recover_jobs(self, child: ChildProcess) -> None:
        with self._logging_failure(child, "could not list the queues"):
            for queue in self._queues:
                with self._logging_failure(child, str(queue.key)):
                    self._recover_queue(queue, child)

    def _recover_queue(self, queue: Queue[Any, Any], child: ChildProcess) -> None:
        reason = f"worker process {child.exit_reason}"
        never_started = child.started_jobs.never_started if child.started_jobs is not None else None
        jobs = expire_worker(queue, child.id, reason, never_started)
        if jobs.expired or jobs.released:
            logger.warning(
                "%s: took back %d running and %d unstarted jobs of worker %s",
                queue.key,
                jobs.expired,
                jobs.released,
                child.id,
            )

    @contextlib.contextmanager
    def _logging_failure(self, child: ChildProcess, where: str) -> Iterator[None]:
        """Log an error of one queue, so that the jobs in the others are still taken back."""
        try:
            yield
        except Exception as error:
            logger.error(
                "%s: could not take back the jobs of dead worker %s (%s); their leases will expire",
                where,
                child.id,
                error,
            )

    def _remove_child(self, child: ChildProcess) -> None:
        child.close()
        del self._children[child.id]

    # --- hung children ---

    def _check_children(self) -> None:
        """Kill hung children; counted in checks, not seconds: the whole system may have slept."""
        for child in self._children.values():
            if child.missed_pings() * PING_INTERVAL >= PING_TIMEOUT:
                self._kill(child, f"did not respond for {PING_TIMEOUT:g} s")
        self._check_at = time.monotonic() + PING_INTERVAL

    def _kill(self, child: ChildProcess, reason: str) -> None:
        if child.kill(reason):
            logger.error("worker process %d %s: killing it", child.process.pid, reason)

    # --- shutdown ---

    def _on_signal(self, number: int) -> None:
        is_second = self._stopping.is_set()
        self._stopping.set()
        # A second signal is passed on as well, so that the children stop immediately.
        for child in list(self._children.values()):
            child.send_signal(number)
        self._call_later(
            SECOND_SIGNAL_TIMEOUT if is_second else self._grace + KILL_AFTER_GRACE, self._kill_all
        )
        if is_second:
            self._call_later(2 * SECOND_SIGNAL_TIMEOUT, self._exit_now)
        self._callbacks.put(lambda: None)

    def _kill_all(self) -> None:
        for child in self._children.values():
            self._kill(child, "did not stop in time")

    def _exit_now(self) -> None:
        for child in self._children.values():
            logger.error(
                "jobs of worker %s may still be leased until their leases expire", child.id
            )
        self._exiting = True
