"""The address of a store that goes by the test's clock."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ackline.queues import Queues


class TestAddress:
    """Stands in for `StoreAddress` where a reader is called without Spark."""

    __test__ = False

    def __init__(self, connect: Callable[[], Queues], tenant: str = "default") -> None:
        self.connect = connect
        self.tenant = tenant

    @contextmanager
    def open(self) -> Iterator[Queues]:
        yield self.connect()

    def require_visible(self, file: str, instead: str) -> None:
        """All is on one machine."""


class DriverAddress(TestAddress):
    """The same for one driver: its planner connects first, its tasks after that."""

    __test__ = False

    def __init__(self, connect: Callable[[], Queues]) -> None:
        super().__init__(self._next)
        self._connect = connect
        self._planning = False

    @functools.cached_property
    def queues(self) -> Queues:
        """The planner's connection."""
        return self._connect()

    def _next(self) -> Queues:
        first, self._planning = not self._planning, True
        return self.queues if first else self._connect()
