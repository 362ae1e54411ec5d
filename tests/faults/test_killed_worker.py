"""A worker is killed while it runs jobs."""

import pytest

from tests.harness.faults import Report, Rule
from tests.harness.faults.checks.history import Phase, StepType, count
from tests.harness.faults.processes import wait_for
from tests.harness.faults.scenario import Scenario
from tests.harness.faults.workload import ASYNC, SYNC, Task

JOBS = 4
LONG_FIRST_ATTEMPT = Task((60.0, 0.01))


def kill_busy_worker(scenario: Scenario, timeout: float = 30.0, **details) -> Report:
    """Kill a worker that has started some jobs; another runs the rest."""
    for number in range(JOBS):
        scenario.enqueue(f"job-{number}", LONG_FIRST_ATTEMPT, kind=(SYNC, ASYNC)[number % 2])
    victim = scenario.start("worker", concurrency=JOBS, **details)
    wait_for(
        "jobs to start", lambda: count(victim.steps(), StepType.DELIVERY, Phase.INVOKE) == JOBS
    )
    with scenario.fault("kill worker", victim.name):
        victim.kill()
    scenario.drain(timeout=timeout, **details)
    return scenario.check()


def test_its_jobs_are_run_by_another_worker(open_scenario):
    report = kill_busy_worker(open_scenario(lease=2.0))

    assert report.ok, str(report)
    assert report.figures["jobs completed at the end"] == JOBS
    assert report.figures["leases expired (extra deliveries)"] == JOBS


@pytest.mark.parametrize(
    ("variant", "rule"), [("completes on claim", Rule.LOST), ("never expires", Rule.STUCK)]
)
def test_control(open_scenario, variant, rule):
    report = kill_busy_worker(open_scenario(lease=1.0), timeout=3.0, variant=variant)

    assert rule in report.broken, str(report)
