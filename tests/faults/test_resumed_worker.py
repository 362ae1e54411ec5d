"""A worker is suspended past its lease and resumed: what it settles then must be refused."""

from tests.harness.faults import Report, Rule
from tests.harness.faults.checks.history import Phase, StepType
from tests.harness.faults.processes import ManagedProcess, wait_for
from tests.harness.faults.scenario import Scenario
from tests.harness.faults.workload import Task


def resume_after_expiry(scenario: Scenario, variant: str) -> Report:
    """The second worker is running the job when the first one is resumed and settles it."""
    scenario.enqueue("job", Task((1.0, 2.0)))
    first = scenario.start("worker", concurrency=1, variant=variant)
    wait_for("the first start", lambda: has_started(first, "job"))
    end = scenario.pause(first)
    second = scenario.start("worker", concurrency=1, variant=variant)
    wait_for("the second start", lambda: has_started(second, "job"))
    scenario.resume(first, end)
    wait_for("the resumed worker to settle", lambda: has_settled(first, "job"))
    second.stop()
    first.stop()
    scenario.drain()
    return scenario.check()


def has_started(worker: ManagedProcess, id: str) -> bool:
    return any(step.type is StepType.DELIVERY and step.id == id for step in worker.steps())


def has_settled(worker: ManagedProcess, id: str) -> bool:
    return any(
        step.type is StepType.SETTLE and step.id == id and step.phase is not Phase.INVOKE
        for step in worker.steps()
    )


def test_its_settling_is_refused(open_scenario):
    report = resume_after_expiry(open_scenario(lease=0.7), "drops heartbeat replies")

    assert report.ok, str(report)
    assert report.figures["settlings refused"] >= 1


def test_control_settling_by_id_alone(open_scenario):
    report = resume_after_expiry(open_scenario(lease=0.7), "unfenced")

    assert Rule.STALE in report.broken, str(report)
