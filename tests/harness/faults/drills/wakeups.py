"""Idle workers lose the connection by which they hear of new jobs."""

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
"""Seconds in which each job must begin, however busy the machine is. A worker that does not hear of
it looks only long after that (`RARELY`)."""

IDLE_SECONDS = 0.3
"""Seconds after which a worker that has nothing to do listens."""


def wake_up(
    order: DrillOptions,
    url: str,
    act: str,
    cut_listeners: Callable[[], object],
    *,
    variant: str = "",
) -> Report:
    """Cut the listeners `order.count` times; the worker must hear of each next job."""
    delays = list[float]()
    # A worker also looks when a lease may lapse: not here.
    with ServerScenario(url, order.folder, seed=order.seed, lease=RARE_POLL_SECONDS) as scene:
        scene.enqueue("first", Task())
        worker = scene.start("worker", variant=variant or "rarely polling")
        wait_for("the first job to begin", lambda: _start(worker, "first") is not None)
        for number in range(order.count):
            time.sleep(IDLE_SECONDS)
            with scene.server_fault(act):
                cut_listeners()
            if len(delays) == number:
                _wait_for_job(scene, worker, f"job-{number}", delays)
        worker.stop()
        scene.drain()
        title = f"{order.count} listeners cut{' and ' if variant else ''}{variant}"
        report = check(scene.evidence(), seed=order.seed, title=title)
    return msgspec.structs.replace(report, figures={**report.figures, **_figures(delays)})


def _wait_for_job(
    scene: ServerScenario, worker: ManagedProcess, id: str, delays: list[float]
) -> None:
    """Enqueue a job, and note how long it took to begin; or complain that it did not."""
    at = time.time()
    scene.enqueue(id, Task())
    try:
        wait_for(f"{id} to begin", lambda: _start(worker, id) is not None, START_TIMEOUT)
    except ConditionTimeout:
        scene.report_violation(
            BLOCKED, worker.name, f"{id} had not begun after {START_TIMEOUT:g} s"
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
