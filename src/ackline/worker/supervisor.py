"""Several worker processes, watched: a dead one is replaced, and its jobs are freed at once."""

from __future__ import annotations

import logging
import queue as _queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

from ackline.maintenance.reaper import expire_worker
from ackline.queue import Queue
from ackline.queue.consumer import worker_id
from ackline.worker.signals import hear_signals

logger = logging.getLogger("ackline")

SHORT_LIFE = 5.0
"""A process that lived shorter than this is not replaced at once."""

FIRST_PAUSE, LAST_PAUSE = 0.1, 10.0
"""Seconds between the death and the replacement of processes that die young."""


class Child:
    """One worker process. It stops by itself when its standard input closes: we are gone."""

    def __init__(self, id: str, command: Sequence[str], pass_fds: Sequence[int] = ()) -> None:
        self.id = id
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            pass_fds=tuple(pass_fds),
            # A Ctrl-C at the terminal is for us: we pass it on, once.
            process_group=0,
        )

    def send(self, number: int) -> None:
        """Pass a signal on."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    @property
    def cause(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exited with status {code}"


class Supervisor:
    """Keeps `processes` workers alive until it is told to stop.

    `command` gives the command line for a worker id, and `pass_fds` are the files that it
    inherits. The queues are listed anew for each dead child. The supervisor never claims itself;
    it sees the death of a child within milliseconds and expires what the child held, so
    that nobody has to wait for leases to lapse.
    """

    def __init__(
        self,
        queues: Iterable[Queue[Any, Any]],
        command: Callable[[str], Sequence[str]],
        *,
        processes: int,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._queues = queues
        self._command = command
        self._processes = processes
        self._pass_fds = pass_fds
        self._children: dict[str, Child] = {}
        self._news: _queue.SimpleQueue[Callable[[], None]] = _queue.SimpleQueue()
        self._stopping = threading.Event()
        self._pause = FIRST_PAUSE

    def run(self) -> None:
        """Supervise until SIGTERM, SIGINT or SIGHUP; returns when all children have ended."""
        deafen = hear_signals(self._on_signal)
        try:
            for _ in range(self._processes):
                self._spawn()
            while self._children or not self._stopping.is_set():
                self._news.get()()
        finally:
            deafen()

    def _spawn(self) -> None:
        if self._stopping.is_set():
            return
        id = worker_id()
        child = self._children[id] = Child(id, self._command(id), self._pass_fds)
        threading.Thread(target=self._watch, args=(child,), daemon=True).start()
        if self._stopping.is_set():
            # The signal came while the child was being started: it has not had it yet.
            child.send(signal.SIGTERM)

    def _watch(self, child: Child) -> None:
        child.process.wait()
        self._news.put(lambda: self._bury(child))

    def _bury(self, child: Child) -> None:
        del self._children[child.id]
        for queue in self._queues:
            self._free(queue, child)
        if self._stopping.is_set():
            return
        logger.warning("worker process %d %s", child.process.pid, child.cause)
        if time.monotonic() - child.started > SHORT_LIFE:
            self._pause = FIRST_PAUSE
            self._spawn()
        else:
            # Not here: while one process waits for its successor, others may die.
            timer = threading.Timer(self._pause, lambda: self._news.put(self._spawn))
            timer.daemon = True
            timer.start()
            self._pause = min(LAST_PAUSE, self._pause * 2)

    def _free(self, queue: Queue[Any, Any], child: Child) -> None:
        try:
            freed = expire_worker(queue, child.id, f"worker process {child.cause}")
        except Exception as error:
            logger.error(
                "%s: the jobs of dead worker %s could not be freed (%s); their leases will lapse",
                queue.key,
                child.id,
                error,
            )
        else:
            if freed.expired:
                logger.warning("%s: freed %d jobs of %s", queue.key, freed.expired, child.id)

    def _on_signal(self, number: int) -> None:
        # A second signal reaches the children as their second, and they do not wait.
        self._stopping.set()
        for child in list(self._children.values()):
            child.send(number)
        self._news.put(lambda: None)


def stop_with_parent(stop: Callable[[], None], stdin: IO[str] | None = None) -> None:
    """Call `stop` when the process that started this one is gone."""
    source = stdin or sys.stdin

    def wait_for_end() -> None:
        source.read()
        stop()

    threading.Thread(target=wait_for_end, name="ackline parent", daemon=True).start()
