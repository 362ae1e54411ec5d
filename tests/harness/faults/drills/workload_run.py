"""Busy producers and workers under repeated faults of their server."""

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
"""Seconds between two faults; often too short for all processes to recover."""

PROGRESS_TIMEOUT = 15.0
"""Seconds within which each process must make progress after the last fault.

A worker that cannot reach its store retries after at most five seconds."""

DRAIN_TIMEOUT = 60.0


class WorkloadRun:
    """Processes are not replaced: one that exits or makes no progress is a violation."""

    def __init__(
        self,
        scenario: ServerScenario,
        options: DrillOptions,
        *,
        producers: int = 1,
        workers: int = 2,
    ) -> None:
        self.scenario = scenario
        self.random = random.Random(options.seed)
        self._count = options.count
        self._process_counts = {"producer": producers, "worker": workers}
        self._processes: list[ManagedProcess] = []

    def run(
        self, inject_fault: Callable[[], None], timeout: float = DRAIN_TIMEOUT, **details: object
    ) -> None:
        """Inject `options.count` faults, check that each process makes progress, then drain."""
        self._start_processes(details)
        for _ in range(self._count):
            inject_fault()
            time.sleep(self.random.uniform(*PAUSE_BETWEEN_FAULTS))
        since = time.time()
        for process in self._processes:
            self._expect_progress(process, since)
            process.stop()
        self.scenario.drain(timeout=timeout)

    def wait_for_work(self, role: str) -> None:
        """Wait until each process of this role has made progress."""
        since = time.time()
        for process in self._processes:
            if process.role == role:
                wait_for(f"{process.name} to make progress", partial(process.has_worked, since))

    def _start_processes(self, details: dict[str, object]) -> None:
        self._processes = [
            self.scenario.start(role, max_pause=0.02, concurrency=8, **details)
            for role, count in self._process_counts.items()
            for _ in range(count)
        ]
        for process in self._processes:
            wait_for(f"{process.name} to work", process.has_worked)

    def _expect_progress(self, process: ManagedProcess, since: float) -> None:
        def makes_progress() -> bool:
            self.scenario.enqueue_one()
            return process.has_worked(since)

        try:
            wait_for(f"{process.name} to make progress", makes_progress, PROGRESS_TIMEOUT)
        except ConditionTimeout as error:
            ended = "" if process.alive else f"; it has ended with status {process.status}"
            self.scenario.report_violation(BLOCKED, process.name, f"{error}{ended}")
