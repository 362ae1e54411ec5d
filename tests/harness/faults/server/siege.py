"""Producers and workers at full work, while faults strike their server again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from tests.harness.faults.checker import BLOCKED
from tests.harness.faults.crew import Member, NotReached, wait_for
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.scene import ServerScene

REST = (0.0, 0.25)
"""Seconds between two faults: often before all processes have recovered."""

PROGRESS_PATIENCE = 15.0
"""Seconds within which each process must make progress after the last fault.

A worker that cannot reach its store tries again after five seconds at the latest."""

DRAIN_PATIENCE = 60.0


class Siege:
    """No process is replaced here: one that ends or falls silent is a finding."""

    def __init__(
        self, scene: ServerScene, order: Order, *, producers: int = 1, workers: int = 2
    ) -> None:
        self.scene = scene
        self.random = random.Random(order.seed)
        self._count = order.count
        self._crew = {"producer": producers, "worker": workers}
        self._members: list[Member] = []

    def run(
        self, blow: Callable[[], None], patience: float = DRAIN_PATIENCE, **details: object
    ) -> None:
        """Strike `order.count` times, check that each process makes progress, then drain."""
        self._muster(details)
        for _ in range(self._count):
            blow()
            time.sleep(self.random.uniform(*REST))
        since = time.time()
        for member in self._members:
            self._expect_progress(member, since)
            member.stop()
        self.scene.drain(patience=patience)

    def wait_for_work(self, role: str) -> None:
        """Wait until each process of this role has done something from now on."""
        since = time.time()
        for member in self._members:
            if member.role == role:
                wait_for(f"{member.name} to go on", partial(member.has_worked, since))

    def _muster(self, details: dict[str, object]) -> None:
        self._members = [
            self.scene.start(role, pause=0.02, concurrency=8, **details)
            for role, strength in self._crew.items()
            for _ in range(strength)
        ]
        for member in self._members:
            wait_for(f"{member.name} to work", member.has_worked)

    def _expect_progress(self, member: Member, since: float) -> None:
        def goes_on() -> bool:
            self.scene.feed()
            return member.has_worked(since)

        try:
            wait_for(f"{member.name} to go on", goes_on, PROGRESS_PATIENCE)
        except NotReached as silence:
            ended = "" if member.alive else f"; it has ended with status {member.status}"
            self.scene.complain(BLOCKED, member.name, f"{silence}{ended}")
