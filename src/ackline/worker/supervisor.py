"""Several worker processes, watched: one that dies or hangs is replaced, and its jobs are freed."""

from __future__ import annotations

import contextlib
import logging
import queue as _queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ackline.maintenance.reaper import expire_worker
from ackline.pauses import Pauses
from ackline.queue import Queue
from ackline.queue.consumer import worker_id
from ackline.worker.begun import Begun
from ackline.worker.child import SIGN_EVERY, Child
from ackline.worker.heartbeat import ALIVE_FOR
from ackline.worker.signals import hear_signals

logger = logging.getLogger("ackline")

SHORT_LIFE = 5.0
"""A process that lived shorter than this is not replaced at once."""

REPLACEMENTS = (0.1, 10.0)
"""Seconds between the death and the replacement of processes that die young."""

SILENCE = 3 * ALIVE_FOR
"""Seconds without a sign of life after which a process counts as hanging. Its jobs go to others
long before."""

LEEWAY = 10.0
"""Seconds beyond its grace period that a process has to stop."""

HURRY = 3.0
"""Seconds that a process has after a second signal; as many more go to freeing its jobs."""


class Supervisor:
    """Keeps `processes` workers alive until it is told to stop.

    `command` gives the command line for a worker id, `grace` is how long a worker may take to
    stop, and `pass_fds` are the files that it inherits. The queues are listed anew for each dead
    child. The supervisor never claims itself; it sees the death of a child within milliseconds
    and expires what the child held, so that nobody has to wait for leases to lapse. Children that
    run handlers mark the jobs they have begun: a death costs the others no attempt.
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
    ) -> None:
        self._queues = queues
        self._command = command
        self._processes = processes
        self._grace = grace
        self._pass_fds = pass_fds
        self._runs_handlers = runs_handlers
        self._children: dict[str, Child] = {}
        self._news: _queue.SimpleQueue[Callable[[], None]] = _queue.SimpleQueue()
        self._look_at = 0.0
        self._stopping = threading.Event()
        self._leaving = False
        self._pauses = Pauses(*REPLACEMENTS)

    def run(self) -> None:
        """Supervise until SIGTERM, SIGINT or SIGHUP; returns when all children have ended."""
        deafen = hear_signals(self._on_signal)
        try:
            for _ in range(self._processes):
                self._spawn()
            while not self._leaving and (self._children or not self._stopping.is_set()):
                self._next_news()()
        finally:
            deafen()

    def _next_news(self) -> Callable[[], None]:
        try:
            return self._news.get(timeout=max(0.0, self._look_at - time.monotonic()))
        except _queue.Empty:
            return self._look

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something later, without waiting here: meanwhile other children may die."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._news.put, [act])
        timer.daemon = True
        timer.start()

    # --- one child ---

    def _spawn(self) -> None:
        if self._stopping.is_set():
            return
        id = worker_id()
        begun = Begun() if self._runs_handlers else None
        child = self._children[id] = Child(id, self._command(id), self._pass_fds, begun)
        threading.Thread(target=self._watch, args=(child,), daemon=True).start()
        if self._stopping.is_set():
            # The signal came while the child was being started: it has not had it yet.
            child.send(signal.SIGTERM)

    def _watch(self, child: Child) -> None:
        child.process.wait()
        self._news.put(lambda: self._replace(child))
        # In this thread: a store that is away must hold up neither replacements nor the stop.
        self._bury(child)
        self._news.put(lambda: self._forget(child))

    def _replace(self, child: Child) -> None:
        if self._stopping.is_set():
            return
        logger.warning("worker process %d %s", child.process.pid, child.cause)
        if time.monotonic() - child.started > SHORT_LIFE:
            self._pauses.reset()
            self._spawn()
        else:
            self._later(self._pauses.next(), self._spawn)

    def _bury(self, child: Child) -> None:
        with self._logging_failure(child, "queues could not be listed"):
            for queue in self._queues:
                with self._logging_failure(child, str(queue.key)):
                    self._free(queue, child)

    def _free(self, queue: Queue[Any, Any], child: Child) -> None:
        reason = f"worker process {child.cause}"
        unbegun = child.begun.unbegun if child.begun is not None else None
        freed = expire_worker(queue, child.id, reason, unbegun)
        if freed.expired or freed.released:
            logger.warning(
                "%s: freed %d jobs of %s, and %d that it had not begun",
                queue.key,
                freed.expired,
                child.id,
                freed.released,
            )

    @contextlib.contextmanager
    def _logging_failure(self, child: Child, where: str) -> Iterator[None]:
        """Log an error with one queue, so that the jobs in the others are still freed."""
        try:
            yield
        except Exception as error:
            logger.error(
                "%s: the jobs of dead worker %s could not be freed (%s); their leases will lapse",
                where,
                child.id,
                error,
            )

    def _forget(self, child: Child) -> None:
        child.close()
        del self._children[child.id]

    # --- those that hang ---

    def _look(self) -> None:
        """Kill children that hang; by looks, not seconds: they may have stood still with us."""
        for child in self._children.values():
            if child.listen() * SIGN_EVERY >= SILENCE:
                self._kill(child, f"gave no sign of life for {SILENCE:g} s")
        self._look_at = time.monotonic() + SIGN_EVERY

    def _kill(self, child: Child, why: str) -> None:
        if child.kill(why):
            logger.error("worker process %d %s: killing it", child.process.pid, why)

    # --- the stop ---

    def _on_signal(self, number: int) -> None:
        again = self._stopping.is_set()
        self._stopping.set()
        # A second signal reaches the children as their second, and they do not wait.
        for child in list(self._children.values()):
            child.send(number)
        self._later(HURRY if again else self._grace + LEEWAY, self._kill_all)
        if again:
            self._later(2 * HURRY, self._leave)
        self._news.put(lambda: None)

    def _kill_all(self) -> None:
        for child in self._children.values():
            self._kill(child, "did not stop in time")

    def _leave(self) -> None:
        for child in self._children.values():
            logger.error("the jobs of worker %s may not be free yet; their leases lapse", child.id)
        self._leaving = True
