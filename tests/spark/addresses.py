"""The address of a store that goes by the test's clock."""

from __future__ import annotations

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
