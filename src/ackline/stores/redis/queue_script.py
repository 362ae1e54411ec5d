"""Scripts that work on one queue: which keys they get, and what their errors mean."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from ackline.clock import Clock
from ackline.errors import KeysChanged, StoreError, StoreFull, StoreUnavailable
from ackline.job import QueueKey
from ackline.stores.redis.connection import Argument, Connection
from ackline.stores.redis.names import SCHEMA, Names
from ackline.stores.redis.settings import fields_of_new

NO_QUEUE, FULL, KEYS_CHANGED = "NOQUEUE", "FULL", "KEYSCHANGED"

TRIES = 1000
"""How often a queue is made again that others drop before it can be used."""

ARMED_AT_ONCE = 500
"""For how many queues one script notes that somebody waits."""

Run = Callable[[str, Sequence[str], Iterable[Argument]], Any]


class QueueScripts:
    """Runs the scripts of queues by the server's clock, or by a clock given for tests."""

    def __init__(self, connection: Connection, names: Names, clock: Clock | None) -> None:
        self.connection = connection
        self.names = names
        self._clock = clock

    def run(self, name: str, queue: QueueKey, arguments: Iterable[Argument] = ()) -> Any:
        """Run a script that reads, or whose changes need not be waited for."""
        return self._run(self.connection.run, name, queue, arguments)

    def arm(self, queues: Sequence[QueueKey]) -> None:
        """Note for each of the queues that exist that somebody waits for its jobs."""
        at_once = 1 if self.names.clustered else ARMED_AT_ONCE  # a script reaches only one slot
        for start in range(0, len(queues), at_once):
            first, *others = queues[start : start + at_once]
            keys = [self.names.base(first), self.names.counters(first)]
            keys += [self.names.base(queue) for queue in others]
            self.connection.run("arm", keys, (self.now(),))

    def change(self, name: str, queue: QueueKey, arguments: Iterable[Argument] = ()) -> Any:
        """Run a script that changes something, and wait until it is safe; makes a missing queue."""
        return self._make_and_run(self.connection.run_safely, name, queue, [*arguments])

    def make_and_run(self, name: str, queue: QueueKey, arguments: Iterable[Argument]) -> Any:
        """Run a script; makes a missing queue."""
        return self._make_and_run(self.connection.run, name, queue, [*arguments])

    def make(self, queue: QueueKey) -> None:
        """Make a queue, unless it is there."""
        with self.connection.translated:
            # The registry first: a queue that is not in it would be found by nobody.
            self.connection.client.setnx(self.names.schema, SCHEMA)
            self.connection.client.sadd(self.names.registry, self.names.entry(queue))
        self.run("make", queue, fields_of_new(self.names.mark(queue)))

    def now(self) -> str:
        """The time for a script; empty for the server's own."""
        return "" if self._clock is None else repr(self._clock.now())

    def _make_and_run(self, run: Run, name: str, queue: QueueKey, arguments: list[Argument]) -> Any:
        for _ in range(TRIES):
            try:
                return self._run(run, name, queue, arguments)
            except StoreError as error:
                if not _says(error, NO_QUEUE):
                    raise
            self.make(queue)
        raise StoreUnavailable(
            f"queue {queue} was dropped again and again, {TRIES} times; nothing was changed"
        )

    def _run(self, run: Run, name: str, queue: QueueKey, arguments: Iterable[Argument]) -> Any:
        try:
            return run(name, _keys(self.names, queue), (self.now(), *arguments))
        except StoreError as error:
            if _says(error, KEYS_CHANGED):
                raise KeysChanged(str(queue)) from None
            if _says(error, FULL):
                limit = str(error.__cause__).split()[1]
                raise StoreFull.of_queue(queue, int(limit)) from None
            raise


@functools.lru_cache(maxsize=4096)
def _keys(names: Names, queue: QueueKey) -> tuple[str, str, str]:
    return names.base(queue), names.counters(queue), names.room_of(queue)


def _says(error: StoreError, word: str) -> bool:
    cause = error.__cause__
    return isinstance(cause, ResponseError) and str(cause).startswith(word)
