"""Producers are killed in the middle of an enqueue, several of them on one store."""

import time

import pytest

from tests.harness.faults import Report, Rule
from tests.harness.faults.checks.history import Phase, StepType, count
from tests.harness.faults.processes import ManagedProcess, wait_for
from tests.harness.faults.scenario import Scenario

MIN_ANSWERED = 40
WRITERS = 4


def answered(writer: ManagedProcess) -> int:
    return count(writer.steps(), StepType.ENQUEUE, Phase.OK)


def kill_all_writers(scenario: Scenario, **details) -> Report:
    """Four writers and a reader run without pauses; then all writers are killed."""
    reader = scenario.start("journal_reader")
    writers = [scenario.start("producer", max_pause=0.0, **details) for _ in range(WRITERS)]
    wait_for("answers", lambda: all(answered(writer) > MIN_ANSWERED for writer in writers))
    for writer in writers:
        with scenario.fault("kill producer", writer.name):
            writer.kill()
    scenario.drain()
    time.sleep(0.2)
    reader.stop()
    return scenario.check()


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_acknowledged_jobs_are_stored(open_scenario, url, durability):
    scenario = open_scenario()
    scenario.url = f"{url}?durability={durability}"

    report = kill_all_writers(scenario)

    assert report.ok, str(report)
    assert report.figures["enqueues answered ok"] > WRITERS * MIN_ANSWERED


def test_control_acknowledged_before_the_commit(open_scenario):
    report = kill_all_writers(open_scenario(), variant="answers before commit")

    assert Rule.LOST in report.broken, str(report)
