"""A scenario with faults of the server."""

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
    """A scenario whose server may be unavailable, so that calls of the harness are retried."""

    urls_by_role: Mapping[str, str] = {}
    """URLs of roles that connect by a URL other than that of the scenario."""

    def start(self, role: str, **details: Any) -> ManagedProcess:
        """Start a process of this role, with a unique name."""
        default_url, self.url = self.url, self.urls_by_role.get(role, self.url)
        try:
            return super().start(role, **details)
        finally:
            self.url = default_url

    def enqueue_one(self) -> None:
        """Enqueue a job, so that there is something to do."""
        self._enqueue_one()

    def live(self) -> int:
        """The number of unfinished jobs."""
        return retry_while_unavailable(super().live)

    def server_fault(self, act: str, note: str = "") -> AbstractContextManager[None]:
        """Record a fault of the server, which affects all workers with leases."""
        return self.fault(act, ALL_WORKERS, note)


def retry_while_unavailable(call: Callable[[], T], timeout: float = TIMEOUT) -> T:
    """Retry until the store is available; only for calls that are safe to repeat."""
    until = time.monotonic() + timeout
    while True:
        try:
            return call()
        except StoreUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
