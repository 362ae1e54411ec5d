"""A scene whose server comes and goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ackline.errors import StoreUnavailable
from tests.harness.faults.case import EVERYBODY
from tests.harness.faults.crew import PATIENCE, Member
from tests.harness.faults.scene import Scene

T = TypeVar("T")


class ServerScene(Scene):
    """A scene whose harness itself must survive the faults of the server."""

    ways: Mapping[str, str] = {}
    """URLs of roles that do not reach the server by the URL of the scene."""

    def start(self, role: str, **details: Any) -> Member:
        """Start a process of this role; every one has a name of its own."""
        straight, self.url = self.url, self.ways.get(role, self.url)
        try:
            return super().start(role, **details)
        finally:
            self.url = straight

    def feed(self) -> None:
        """Enqueue a job, so that there is something to do."""
        self._enqueue_one()

    def live(self) -> int:
        """How many jobs are not finished."""
        return patiently(super().live)

    def strike(self, act: str, note: str = "") -> AbstractContextManager[None]:
        """Note a fault of the server: it strikes all workers that hold a lease."""
        return self.fault(act, EVERYBODY, note)


def patiently(ask: Callable[[], T], patience: float = PATIENCE) -> T:
    """Ask until the store can be reached; only for calls that are safe to repeat."""
    until = time.monotonic() + patience
    while True:
        try:
            return ask()
        except StoreUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
