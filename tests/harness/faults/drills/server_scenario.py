"""A scenario whose server fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ackline.core.errors import StoreUnavailable
from tests.harness.faults.checks.evidence import ALL_WORKERS
from tests.harness.faults.processes import TIMEOUT, ManagedProcess
from tests.harness.faults.scenario import Scenario

T = TypeVar("T")


class ServerScenario(Scenario):
    """A scenario in which the harness itself has to survive faults of the server."""

    urls_by_role: Mapping[str, str] = {}
    """URLs of roles that do not reach the server by the URL of the scenario."""

    def start(self, role: str, **details: Any) -> ManagedProcess:
        """Start a process of this role; every one has a name of its own."""
        straight, self.url = self.url, self.urls_by_role.get(role, self.url)
        try:
            return super().start(role, **details)
        finally:
            self.url = straight

    def enqueue_one(self) -> None:
        """Enqueue a job, so that there is something to do."""
        self._enqueue_one()

    def live(self) -> int:
        """How many jobs are not finished."""
        return retry_while_unavailable(super().live)

    def server_fault(self, act: str, note: str = "") -> AbstractContextManager[None]:
        """Record a fault of the server, which affects all workers with leases."""
        return self.fault(act, ALL_WORKERS, note)


def retry_while_unavailable(ask: Callable[[], T], timeout: float = TIMEOUT) -> T:
    """Retry until the store is available; only for calls that are safe to repeat."""
    until = time.monotonic() + timeout
    while True:
        try:
            return ask()
        except StoreUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
