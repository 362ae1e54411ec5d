"""A supervisor is killed: its workers must stop, and release their jobs."""

from tests.harness.faults import Report, Rule
from tests.harness.faults.campaign import expect_workers_stopped
from tests.harness.faults.processes import children_of, wait_for
from tests.harness.faults.scenario import Scenario
from tests.harness.faults.workload import ASYNC, Task

JOBS = 4


def kill_supervisor(scenario: Scenario, timeout: float, **details) -> Report:
    for number in range(JOBS):
        scenario.enqueue(f"job-{number}", Task((2.0,)), kind=ASYNC)
    supervisor = scenario.start("supervisor", processes=2, grace=0.1, **details)
    wait_for("its workers", lambda: len(list(children_of(supervisor))) == 2)
    children = list(children_of(supervisor))
    with scenario.fault("kill supervisor", supervisor.name):
        supervisor.kill()
        expect_workers_stopped(scenario, children, timeout)
    for child in children:
        child.kill()
    scenario.drain()
    return scenario.check()


def test_its_workers_stop(open_scenario):
    report = kill_supervisor(open_scenario(lease=30.0), timeout=20.0)

    assert report.ok, str(report)
    assert report.figures["jobs completed at the end"] == JOBS


def test_control_workers_that_do_not_stop(open_scenario):
    report = kill_supervisor(open_scenario(lease=1.0), timeout=1.0, outlives_parent=True)

    assert Rule.ORPHANED in report.broken, str(report)
