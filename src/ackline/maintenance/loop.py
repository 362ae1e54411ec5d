"""A kind of maintenance that a background thread repeats for some queues."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ackline.core.errors import TRANSIENT_ERRORS, ConfigError
from ackline.maintenance.locks import MaintenanceLocks
from ackline.maintenance.queue_backoff import FailedQueue, QueueBackoff
from ackline.queue import Queue
from ackline.stores.contract import NextDue

logger = logging.getLogger("ackline")

AFTER_INTERVAL = math.inf
"""Returned by `maintain`: nothing more to do until the usual interval has passed."""

MAX_NAMED = 3
"""How many queues a log line names."""


class LoopStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a loop has done so far; `last_run` is None before its first."""

    name: str
    runs: int
    failures: int
    last_run: float | None
    last_error: str
    done: Mapping[str, int]
    """Counts by name: promoted, expired, dead_lettered, pruned, fired."""


class MaintenanceLoop(ABC):
    """Maintains some queues again and again, in a background thread.

    Its queues are in one store. Every process may run one: if two act at once, the store's
    compare-and-set lets one succeed. A loop with a `lock_name` maintains a queue only if no other
    process has done so for an interval (see `MaintenanceLocks`).

    No loop listens to its store: some stores send the notification of a ready job to one listener
    only, and a loop would take it from the workers.
    """

    name: ClassVar[str]
    lock_name: str | None = None
    counters: ClassVar[tuple[str, ...]] = ()
    """Its counters, which start at 0: a metric that appears later hides its first increase."""

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        if not interval > 0:
            raise ConfigError(
                f"the interval of the {self.name} must be above 0 s, not {interval!r}"
            )
        self.queues = tuple(queues)
        self.interval = interval
        self._locks = MaintenanceLocks(self.lock_name) if self.lock_name is not None else None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._random = random.Random()
        self._done = dict.fromkeys(self.counters, 0)
        self._runs = 0
        self._failures = 0
        self._last_run: float | None = None
        self._last_error = ""

    @abstractmethod
    def maintain(self, queue: Queue[Any, Any]) -> float:
        """Do what is due; returns the seconds until more is due, or `AFTER_INTERVAL`."""

    def due(self) -> Mapping[Queue[Any, Any], float]:
        """The queues to maintain, with the seconds until each is due; by default all are now."""
        return dict.fromkeys(self.queues, 0.0)

    def interval_of(self, queue: Queue[Any, Any]) -> float:
        """Seconds during which other processes do not maintain a queue again."""
        del queue
        return self.interval

    def step(self) -> float:
        """Maintain every queue once; returns the seconds until the next run.

        An error of one queue does not stop the others: it is raised at the end.
        """
        delay, errors = self._run_once(QueueBackoff())
        if errors:
            raise ExceptionGroup(f"{self.name} failed", list(errors.values()))
        return delay

    def _run_once(self, backoff: QueueBackoff) -> tuple[float, dict[FailedQueue, Exception]]:
        """Maintain the queues that are due; returns the delay until the next run and the errors."""
        errors = dict[FailedQueue, Exception]()
        queues, delay = self._queues_due(backoff, errors)
        for queue in queues:
            try:
                delay = min(delay, self.maintain(queue))
            except Exception as error:
                error.add_note(f"{self.name} of queue {queue.key}")
                errors[queue] = error
                continue
            backoff.succeeded(queue)
        self._count_run(errors)
        return max(0.0, delay), errors

    def _queues_due(
        self, backoff: QueueBackoff, errors: dict[FailedQueue, Exception]
    ) -> tuple[Sequence[Queue[Any, Any]], float]:
        """The queues to maintain now, and the seconds until more of them are due."""
        try:
            due = self.due().items()
            waits = {queue: max(wait, backoff.seconds_left(queue)) for queue, wait in due}
            delay = min([self.interval, *(wait for wait in waits.values() if wait > 0)])
            ready = [queue for queue, wait in waits.items() if wait <= 0]
            if self._locks is not None:
                ready = self._locks.acquire({queue: self.interval_of(queue) for queue in ready})
        except Exception as error:
            errors[None] = error
            return (), self.interval
        return ready, delay

    def _count_run(self, errors: Mapping[FailedQueue, Exception]) -> None:
        self._runs += 1
        self._last_run = time.time()
        if errors:
            self._failures += 1
            self._last_error = repr(next(iter(errors.values())))

    def start(self) -> None:
        """Run in a background thread until `stop`."""
        if self._thread is None:
            # Each thread has its own event: one that outlives `stop` must not resume at the next.
            self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=[self._stopping], name=f"ackline {self.name}", daemon=True
            )
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop after the current step."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        if thread is None or thread is threading.current_thread():
            return
        thread.join(timeout)
        if thread.is_alive():
            logger.warning("%s did not stop within %g s", self.name, timeout)

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

    def count(self, counter: str, increase: int) -> None:
        """Increase one of the counters."""
        self._done[counter] = self._done.get(counter, 0) + increase

    def _run(self, stopping: threading.Event) -> None:
        backoff = QueueBackoff()
        while not stopping.is_set():
            stopping.wait(self._run_and_back_off(backoff))

    def _run_and_back_off(self, backoff: QueueBackoff) -> float:
        """Run once, log what failed, and return the delay until the next run."""
        delay, errors = self._run_once(backoff)
        delays = backoff.failed(errors, self._random.uniform(0.5, 1.0))
        if unlogged := backoff.to_log(errors):
            self._log_errors(unlogged, delays)
            self._report_errors(unlogged)
        if None in errors:
            return delays[None]
        backoff.succeeded(None)
        return self._add_jitter(min([delay, *delays.values()]))

    def _log_errors(
        self, errors: Mapping[FailedQueue, Exception], delays: Mapping[FailedQueue, float]
    ) -> None:
        causes = list(errors.values())
        # If a store is unavailable, a traceback does not help, and one message is enough for all.
        transient = all(isinstance(cause, TRANSIENT_ERRORS) for cause in causes)
        logger.error(
            "%s failed%s: %s; retrying in %.1f s",
            self.name,
            _describe_queues(errors),
            "; ".join(dict.fromkeys(map(str, causes))),
            min(delays[queue] for queue in errors),
            exc_info=None if transient else ExceptionGroup(f"{self.name} failed", causes),
        )

    def _report_errors(self, errors: Mapping[FailedQueue, Exception]) -> None:
        for queue, error in errors.items():
            for affected in self.queues if queue is None else [queue]:
                affected.error_callbacks.report(error)

    def _add_jitter(self, delay: float) -> float:
        """Spread the runs of many processes, unless the next due time is known exactly."""
        return delay * self._random.uniform(0.8, 1.0) if delay == self.interval else delay


def next_due(queues: Sequence[Queue[Any, Any]]) -> dict[Queue[Any, Any], NextDue]:
    """For each of these queues of one store: when its next job is due and its next lease ends."""
    if not queues:
        return {}
    due = queues[0].store.next_due([queue.key for queue in queues])
    return dict(zip(queues, due, strict=True))


def _describe_queues(queues: Iterable[FailedQueue]) -> str:
    """Name the queues that failed; nothing if the loop itself did.

    >>> _describe_queues([None])
    ''
    """
    names = [str(queue.key) for queue in queues if queue is not None]
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f" for {', '.join(names[:MAX_NAMED])}{more}"
