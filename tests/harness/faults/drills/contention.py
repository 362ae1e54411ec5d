"""Many processes claim, settle, sweep, cancel and move the same jobs, and nothing breaks.

Here no process is killed. So every call must be answered: conflicts with what others do at the
same time are for the store itself to resolve.
"""

from __future__ import annotations

import itertools
import time

from tests.harness.faults.checks.checker import BLOCKED, check
from tests.harness.faults.checks.history import Phase, StepType
from tests.harness.faults.checks.history import count as count_steps
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.processes import ManagedProcess
from tests.harness.faults.workload import ASYNC, Task

CLIENTS = {"producer": 2, "worker": 2, "interfering_client": 3}

LONG_JOBS = 4
"""Jobs that are added at each look."""


def run_contention(url: str, order: DrillOptions, *, variant: str = "") -> Report:
    """Run all processes until the meddlers have done `order.count` acts."""
    with ServerScenario(url, order.folder, seed=order.seed, lease=30.0) as scene:
        scene.has_one_queue = False
        members = [
            scene.start(
                role,
                max_pause=0.02,
                concurrency=8,
                variant=variant if role == "interfering_client" else "",
            )
            for role, strength in CLIENTS.items()
            for _ in range(strength)
        ]
        _wait_for_acts(scene, members, order.count)
        for member in members:
            member.stop()
            if member.status != 0:
                scene.report_violation(BLOCKED, member.name, f"ended with status {member.status}")
        _complain_of_errors(scene, members)
        scene.drain()
        title = f"{order.count} acts of a crowd"
        return check(scene.evidence(), seed=order.seed, title=title)


def _wait_for_acts(scene: ServerScenario, members: list[ManagedProcess], count: int) -> None:
    numbers = itertools.count()
    meddlers = [member for member in members if member.role == "interfering_client"]
    until = time.monotonic() + 30.0 + count
    while time.monotonic() < until and all(member.alive for member in members):
        acts = (step for member in meddlers for step in member.steps())
        if count_steps(acts, StepType.FAULT, Phase.OK) >= count:
            return
        # Held for long, so that a meddler has time to settle them as its own.
        for number in itertools.islice(numbers, LONG_JOBS):
            scene.enqueue(f"long-{number}", Task((0.4,)), kind=ASYNC)
        time.sleep(0.2)


def _complain_of_errors(scene: ServerScenario, members: list[ManagedProcess]) -> None:
    for member in members:
        errors = {step.note for step in member.steps() if step.phase is Phase.INFO}
        for error in sorted(errors)[:3]:
            scene.report_violation(BLOCKED, member.name, f"was not answered: {error}")
