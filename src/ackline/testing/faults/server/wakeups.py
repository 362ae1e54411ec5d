"""Idle workers lose the connection by which they hear of new jobs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import msgspec

from ackline.testing.faults.checker import BLOCKED, check
from ackline.testing.faults.crew import Member, wait_for
from ackline.testing.faults.history import Step, What
from ackline.testing.faults.report import Report
from ackline.testing.faults.server.order import Order
from ackline.testing.faults.server.scene import ServerScene
from ackline.testing.faults.work import Task

PROMPT = 0.3
"""Seconds in which half of the jobs must have begun. A worker that only polls takes about half
of the second between two polls."""

IDLE = 0.3
"""Seconds after which a worker that has nothing to do listens."""


def wake_up(
    order: Order, url: str, act: str, cut_listeners: Callable[[], object], *, variant: str = ""
) -> Report:
    """Cut the listeners `order.count` times; the worker must hear of each next job at once."""
    delays = []
    with ServerScene(url, order.folder, seed=order.seed, lease=order.lease) as scene:
        worker = scene.start("worker", variant=variant)
        _begun(scene, worker, "first")
        for number in range(order.count):
            time.sleep(IDLE)
            with scene.strike(act):
                cut_listeners()
            delays.append(_begun(scene, worker, f"job-{number}"))
        if statistics.median(delays) > PROMPT:
            note = f"half of the jobs waited {statistics.median(delays):.2f} s or more"
            scene.complain(BLOCKED, worker.name, note)
        worker.stop()
        scene.drain()
        title = f"{order.count} listeners cut{' and ' if variant else ''}{variant}"
        report = check(scene.evidence(), seed=order.seed, title=title)
    return msgspec.structs.replace(report, figures={**report.figures, **_figures(delays)})


def _begun(scene: ServerScene, worker: Member, id: str) -> float:
    """Seconds from the enqueue of a job to its start."""
    at = time.time()
    scene.enqueue(id, Task())
    wait_for(f"{id} to begin", lambda: _start(worker, id) is not None)
    start = _start(worker, id)
    assert start is not None
    return start.at - at


def _start(worker: Member, id: str) -> Step | None:
    starts = (step for step in worker.steps() if step.what is What.DELIVERY and step.id == id)
    return next(starts, None)


def _figures(delays: list[float]) -> dict[str, int]:
    return {
        "ms from enqueue to start, median": round(statistics.median(delays) * 1000),
        "ms from enqueue to start, at most": round(max(delays) * 1000),
    }
