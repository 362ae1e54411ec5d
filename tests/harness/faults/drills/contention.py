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
"""Jobs that are added at each check."""


def run_contention(url: str, options: DrillOptions, *, variant: str = "") -> Report:
    """Run all processes until the clients have done `options.count` acts."""
    with ServerScenario(url, options.folder, seed=options.seed, lease=30.0) as scenario:
        scenario.has_one_queue = False
        processes = [
            scenario.start(
                role,
                max_pause=0.02,
                concurrency=8,
                variant=variant if role == "interfering_client" else "",
            )
            for role, strength in CLIENTS.items()
            for _ in range(strength)
        ]
        _wait_for_acts(scenario, processes, options.count)
        for process in processes:
            process.stop()
            if process.status != 0:
                scenario.report_violation(
                    BLOCKED, process.name, f"ended with status {process.status}"
                )
        _complain_of_errors(scenario, processes)
        scenario.drain()
        title = f"{options.count} concurrent acts"
        return check(scenario.evidence(), seed=options.seed, title=title)


def _wait_for_acts(scenario: ServerScenario, processes: list[ManagedProcess], count: int) -> None:
    numbers = itertools.count()
    clients = [process for process in processes if process.role == "interfering_client"]
    until = time.monotonic() + 30.0 + count
    while time.monotonic() < until and all(process.alive for process in processes):
        acts = (step for process in clients for step in process.steps())
        if count_steps(acts, StepType.FAULT, Phase.OK) >= count:
            return
        # Leased for long, so that a client has time to settle them as its own.
        for number in itertools.islice(numbers, LONG_JOBS):
            scenario.enqueue(f"long-{number}", Task((0.4,)), kind=ASYNC)
        time.sleep(0.2)


def _complain_of_errors(scenario: ServerScenario, processes: list[ManagedProcess]) -> None:
    for process in processes:
        errors = {step.note for step in process.steps() if step.phase is Phase.INFO}
        for error in sorted(errors)[:3]:
            scenario.report_violation(BLOCKED, process.name, f"was not answered: {error}")
