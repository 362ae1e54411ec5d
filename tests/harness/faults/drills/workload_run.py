"""Producers and workers at full work, while faults strike their server again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from tests.harness.faults.checks.checker import BLOCKED
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.processes import ConditionTimeout, ManagedProcess, wait_for

PAUSE_BETWEEN_FAULTS = (0.0, 0.25)
"""Seconds between two faults: often before all processes have recovered."""

PROGRESS_TIMEOUT = 15.0
"""Seconds within which each process must make progress after the last fault.

A worker that cannot reach its store tries again after five seconds at the latest."""

DRAIN_TIMEOUT = 60.0


class WorkloadRun:
    """No process is replaced here: one that ends or falls silent is a finding."""

    def __init__(
        self, scene: ServerScenario, order: DrillOptions, *, producers: int = 1, workers: int = 2
    ) -> None:
        self.scene = scene
        self.random = random.Random(order.seed)
        self._count = order.count
        self._process_counts = {"producer": producers, "worker": workers}
        self._members: list[ManagedProcess] = []

    def run(
        self, blow: Callable[[], None], patience: float = DRAIN_TIMEOUT, **details: object
    ) -> None:
        """Strike `order.count` times, check that each process makes progress, then drain."""
        self._start_processes(details)
        for _ in range(self._count):
            blow()
            time.sleep(self.random.uniform(*PAUSE_BETWEEN_FAULTS))
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

    def _start_processes(self, details: dict[str, object]) -> None:
        self._members = [
            self.scene.start(role, max_pause=0.02, concurrency=8, **details)
            for role, strength in self._process_counts.items()
            for _ in range(strength)
        ]
        for member in self._members:
            wait_for(f"{member.name} to work", member.has_worked)

    def _expect_progress(self, member: ManagedProcess, since: float) -> None:
        def goes_on() -> bool:
            self.scene.enqueue_one()
            return member.has_worked(since)

        try:
            wait_for(f"{member.name} to go on", goes_on, PROGRESS_TIMEOUT)
        except ConditionTimeout as silence:
            ended = "" if member.alive else f"; it has ended with status {member.status}"
            self.scene.report_violation(BLOCKED, member.name, f"{silence}{ended}")
