"""What is left in the queues of a fleet that works until they are empty."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ackline.core.backoff import ExponentialDelay
from ackline.core.errors import StoreError
from ackline.core.job import LIVE
from ackline.queue import Queue
from ackline.queue.transfer.snapshot import snapshot_jobs
from ackline.stores.contract import Filter

logger = logging.getLogger("ackline")

PAUSES = (0.5, 10.0)
"""Seconds between two looks at jobs: the first pause and the longest."""

REST = 10
"""A pause is at least this many times as long as the look before it: many jobs may be left."""

PIECE = 100
"""Jobs that are read at once."""

COUNTED = 10_000
"""Jobs of a queue that are counted when they are left."""


class Looks:
    """Says when a worker has nothing left to do, and does not go through many jobs all the time.

    That a queue is empty is seen at once, from its counts. Whether only jobs of other kinds are
    left is not counted anywhere: then the jobs are looked at, less and less often.
    """

    def __init__(
        self, queues: Sequence[Queue[Any, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._queues = queues
        self._clock = clock
        self._pauses = ExponentialDelay(*PAUSES)
        self._next_at = clock() + self._pauses.next()

    @property
    def done(self) -> bool:
        """Whether nothing is left, as far as it is known now."""
        try:
            if is_empty(self._queues):
                return True
            if self._clock() < self._next_at:
                return False
            return self._look()
        except StoreError:
            return False

    def _look(self) -> bool:
        began = self._clock()
        found = has_nothing_to_do(self._queues)
        ended = self._clock()
        self._next_at = ended + max(self._pauses.next(), REST * (ended - began))
        return found


def is_empty(queues: Sequence[Queue[Any, Any]]) -> bool:
    """Whether no job waits or runs; those that are scheduled or failing wait, too."""
    return not any(queue.counts()[state] for queue in queues for state in LIVE)


def has_nothing_to_do(queues: Sequence[Queue[Any, Any]]) -> bool:
    """Whether no job waits or runs that a handler of these queues is for."""
    return not any(_has_work(queue) for queue in queues)


def _has_work(queue: Queue[Any, Any]) -> bool:
    which = Filter(states=LIVE, kinds=queue.handlers.kinds)
    return any(snapshot_jobs(queue.store, queue.key, which, PIECE))


def warn_of_left_jobs(queues: Sequence[Queue[Any, Any]]) -> None:
    """Warn of jobs that wait or run, and that no handler of these queues is for."""
    for queue in queues:
        try:
            _warn_of_left_jobs(queue)
        except StoreError as error:
            logger.warning("cannot ask what is left in queue %s: %s", queue.key, error)


def _warn_of_left_jobs(queue: Queue[Any, Any]) -> None:
    left, seen = Counter[str](), 0
    for piece in snapshot_jobs(queue.store, queue.key, Filter(states=LIVE), PIECE):
        seen += len(piece)
        left.update(job.kind for job in piece if job.kind not in queue.handlers.kinds)
        if seen >= COUNTED:
            break
    for kind, number in left.most_common():
        logger.warning(
            "queue %s still has %s%d %s of kind %r, for which this fleet has no handler",
            queue.key,
            "at least " if seen >= COUNTED else "",
            number,
            "job" if number == 1 else "jobs",
            kind,
        )
