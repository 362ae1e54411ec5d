"""Many processes claim, settle, expire, cancel and move the same jobs.

No process is killed, so every call must be answered: the store itself has to resolve conflicts.
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
"""Jobs that are enqueued at each check."""


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
            for role, count in CLIENTS.items()
            for _ in range(count)
        ]
        _wait_for_acts(scenario, processes, options.count)
        for process in processes:
            process.stop()
            if process.status != 0:
                scenario.report_violation(
                    BLOCKED, process.name, f"ended with status {process.status}"
                )
        _report_errors(scenario, processes)
        scenario.drain()
        title = f"{options.count} concurrent acts"
        return check(scenario.evidence(), seed=options.seed, title=title)


def _wait_for_acts(scenario: ServerScenario, processes: list[ManagedProcess], count: int) -> None:
    job_numbers = itertools.count()
    clients = [process for process in processes if process.role == "interfering_client"]
    until = time.monotonic() + 30.0 + count
    while time.monotonic() < until and all(process.alive for process in processes):
        acts = (step for process in clients for step in process.steps())
        if count_steps(acts, StepType.FAULT, Phase.OK) >= count:
            return
        # Long enough for a client to settle them under a token that is not its own.
        for number in itertools.islice(job_numbers, LONG_JOBS):
            scenario.enqueue(f"long-{number}", Task((0.4,)), kind=ASYNC)
        time.sleep(0.2)


def _report_errors(scenario: ServerScenario, processes: list[ManagedProcess]) -> None:
    for process in processes:
        errors = {step.note for step in process.steps() if step.phase is Phase.INFO}
        for error in sorted(errors)[:3]:
            scenario.report_violation(BLOCKED, process.name, f"was not answered: {error}")
