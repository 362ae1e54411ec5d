"""Idle workers lose the connection on which they are notified of new jobs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import msgspec

from tests.harness.faults.broken_stores import RARE_POLL_SECONDS
from tests.harness.faults.checks.checker import BLOCKED, check
from tests.harness.faults.checks.history import Step, StepType
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.processes import ConditionTimeout, ManagedProcess, wait_for
from tests.harness.faults.workload import Task

START_TIMEOUT = 8.0
"""Seconds in which each job must start, however busy the machine is. A worker that is not notified
polls only long after that (`RARE_POLL_SECONDS`)."""

IDLE_SECONDS = 0.3
"""Seconds after which a worker that has nothing to do listens."""


def kill_listeners(
    options: DrillOptions,
    url: str,
    act: str,
    kill: Callable[[], object],
    *,
    variant: str = "",
) -> Report:
    """Kill the listening connections `options.count` times; each next job must still start soon."""
    delays = list[float]()
    # A worker also polls when a lease may expire: not here.
    with ServerScenario(
        url, options.folder, seed=options.seed, lease=RARE_POLL_SECONDS
    ) as scenario:
        scenario.enqueue("first", Task())
        worker = scenario.start("worker", variant=variant or "rarely polling")
        wait_for("the first job to start", lambda: _start(worker, "first") is not None)
        for number in range(options.count):
            time.sleep(IDLE_SECONDS)
            with scenario.server_fault(act):
                kill()
            if len(delays) == number:
                _wait_for_job(scenario, worker, f"job-{number}", delays)
        worker.stop()
        scenario.drain()
        title = f"{options.count} listeners killed{' and ' if variant else ''}{variant}"
        report = check(scenario.evidence(), seed=options.seed, title=title)
    return msgspec.structs.replace(report, figures={**report.figures, **_figures(delays)})


def _wait_for_job(
    scenario: ServerScenario, worker: ManagedProcess, id: str, delays: list[float]
) -> None:
    """Enqueue a job, and record how long it took to start, or that it did not."""
    at = time.time()
    scenario.enqueue(id, Task())
    try:
        wait_for(f"{id} to start", lambda: _start(worker, id) is not None, START_TIMEOUT)
    except ConditionTimeout:
        scenario.report_violation(
            BLOCKED, worker.name, f"{id} had not started after {START_TIMEOUT:g} s"
        )
    else:
        start = _start(worker, id)
        assert start is not None
        delays.append(start.at - at)


def _start(worker: ManagedProcess, id: str) -> Step | None:
    starts = (step for step in worker.steps() if step.type is StepType.DELIVERY and step.id == id)
    return next(starts, None)


def _figures(delays: list[float]) -> dict[str, int]:
    if not delays:
        return {}
    return {
        "ms from enqueue to start, median": round(statistics.median(delays) * 1000),
        "ms from enqueue to start, at most": round(max(delays) * 1000),
    }
