"""One small duty, done again and again for some queues, in a thread of its own."""

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
"""What `look_after` returns when the usual interval will do."""

MAX_NAMED = 3
"""How many queues a line of the log names."""


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
    """Every process may run one: if two act at once, the store's compare-and-set keeps them apart.

    Its queues are in one store. A loop with a duty looks after a queue only if no other process has
    done so for an interval (see `Locks`).

    No loop listens to its store: some stores send the wake-up for a claimable job to one waiter
    only, and a loop would take it from the workers.
    """

    name: ClassVar[str]
    lock_name: str | None = None
    counters: ClassVar[tuple[str, ...]] = ()
    """What it counts, from 0 on: a figure that is missing at first cannot be seen to rise."""

    def __init__(self, queues: Sequence[Queue[Any, Any]], interval: float) -> None:
        if not interval > 0:
            raise ConfigError(f"the {self.name} needs an interval above 0 s, not {interval!r}")
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
        """Do what is due; returns in how many seconds there is more, or `AFTER_INTERVAL`."""

    def due(self) -> Mapping[Queue[Any, Any], float]:
        """The queues that need it, each with the seconds until then; by default, all do now."""
        return dict.fromkeys(self.queues, 0.0)

    def interval_of(self, queue: Queue[Any, Any]) -> float:
        """Seconds for which others leave a queue alone that was looked after."""
        del queue
        return self.interval

    def step(self) -> float:
        """Look after every queue once; returns in how many seconds to do so again.

        An error with one queue does not keep it from the others: it is raised at the end.
        """
        pause, troubles = self._run_once(QueueBackoff())
        if troubles:
            raise ExceptionGroup(f"the {self.name} failed", list(troubles.values()))
        return pause

    def _run_once(self, setbacks: QueueBackoff) -> tuple[float, dict[FailedQueue, Exception]]:
        """Look after the queues that do not rest; returns when to go on, and what failed."""
        errors = dict[FailedQueue, Exception]()
        queues, pause = self._queues_due(setbacks, errors)
        for queue in queues:
            try:
                pause = min(pause, self.maintain(queue))
            except Exception as error:
                error.add_note(f"{self.name} of queue {queue.key}")
                errors[queue] = error
                continue
            setbacks.succeeded(queue)
        self._count_run(errors)
        return max(0.0, pause), errors

    def _queues_due(
        self, setbacks: QueueBackoff, troubles: dict[FailedQueue, Exception]
    ) -> tuple[Sequence[Queue[Any, Any]], float]:
        """The queues to look after now, and the seconds until more of them need it."""
        try:
            due = self.due().items()
            waits = {queue: max(wait, setbacks.seconds_left(queue)) for queue, wait in due}
            pause = min([self.interval, *(wait for wait in waits.values() if wait > 0)])
            ready = [queue for queue, wait in waits.items() if wait <= 0]
            if self._locks is not None:
                ready = self._locks.acquire({queue: self.interval_of(queue) for queue in ready})
        except Exception as error:
            troubles[None] = error
            return (), self.interval
        return ready, pause

    def _count_run(self, troubles: Mapping[FailedQueue, Exception]) -> None:
        self._runs += 1
        self._last_run = time.time()
        if troubles:
            self._failures += 1
            self._last_error = repr(next(iter(troubles.values())))

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
        """Add to one of the counts."""
        self._done[what] = self._done.get(what, 0) + how_many

    def _run(self, stopping: threading.Event) -> None:
        setbacks = QueueBackoff()
        while not stopping.is_set():
            stopping.wait(self._run_and_back_off(setbacks))

    def _run_and_back_off(self, setbacks: QueueBackoff) -> float:
        """Go round, and keep the loop's own pace even if a queue is in trouble."""
        pause, troubles = self._run_once(setbacks)
        rests = setbacks.failed(troubles, self._random.uniform(0.5, 1.0))
        if news := setbacks.to_log(troubles):
            self._log_errors(news, rests)
        if None in troubles:
            return rests[None]
        setbacks.succeeded(None)
        return self._add_jitter(min([pause, *rests.values()]))

    def _log_errors(
        self, news: Mapping[FailedQueue, Exception], rests: Mapping[FailedQueue, float]
    ) -> None:
        causes = list(news.values())
        # If a store is away, a traceback says nothing; and its message once is enough for all.
        passing = all(isinstance(cause, TRANSIENT_ERRORS) for cause in causes)
        logger.error(
            "the %s failed%s: %s; it goes on in %.1f s",
            self.name,
            _describe_queues(news),
            "; ".join(dict.fromkeys(map(str, causes))),
            min(rests[place] for place in news),
            exc_info=None if passing else ExceptionGroup(f"the {self.name} failed", causes),
        )

    def _add_jitter(self, pause: float) -> float:
        """Spread the processes of a fleet, unless it is known exactly when there is more to do."""
        return pause * self._random.uniform(0.8, 1.0) if pause == self.interval else pause


def next_due(queues: Sequence[Queue[Any, Any]]) -> dict[Queue[Any, Any], NextDue]:
    """For each of these queues of one store, when its next job is due and its next lease ends."""
    if not queues:
        return {}
    due = queues[0].store.next_due([queue.key for queue in queues])
    return dict(zip(queues, due, strict=True))


def _describe_queues(places: Iterable[FailedQueue]) -> str:
    """Which queues are in trouble; nothing if the loop itself is.

    >>> _where([None])
    ''
    """
    names = [str(queue.key) for queue in places if queue is not None]
    if not names:
        return ""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f" for {', '.join(names[:MAX_NAMED])}{more}"
