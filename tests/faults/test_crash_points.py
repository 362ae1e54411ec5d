"""A process is killed at a chosen file operation of SQLite, with locks or in a checkpoint."""

import shutil
from pathlib import Path

import pytest

from tests.harness.faults import Rule
from tests.harness.faults.campaign import crash_producer
from tests.harness.faults.checks.history import Phase, StepType
from tests.harness.faults.crash_points import CrashPoint
from tests.harness.faults.processes import ManagedProcess, wait_for
from tests.harness.faults.programs.options import ProgramOptions
from tests.harness.faults.scenario import Scenario

POINTS = [
    CrashPoint(file, operation, number)
    for file, operation, numbers in (
        ("wal", "write", (1, 9, 40)),
        ("wal", "tear", (2, 30)),
        ("wal", "sync", (1, 3)),
        ("main", "write", (1, 12)),
        ("main", "tear", (3,)),
        ("main", "sync", (1,)),
    )
    for number in numbers
]


def crash_at(scenario: Scenario, points: list[CrashPoint]) -> None:
    for point in points:
        producer = crash_producer(scenario, point)
        assert producer.status == -9, f"{point} was not reached"


def test_nothing_is_lost_or_left_locked(open_scenario):
    scenario = open_scenario()

    crash_at(scenario, POINTS)
    scenario.drain()
    report = scenario.check()

    assert report.ok, str(report)
    assert sum(report.faults.values()) == len(POINTS)


@pytest.mark.parametrize("point", ["main.write.1", "main.tear.1", "main.sync.1", "wal.tear.9"])
def test_a_store_whose_creation_was_interrupted(url, tmp_path: Path, point):
    histories = tmp_path / "histories"
    histories.mkdir()
    options = ProgramOptions(
        name="creator", store=url, folder=str(histories), crash=point, count_from_open=True
    )
    producer = ManagedProcess("crashing_producer", options)
    producer.wait()
    assert producer.status == -9

    with Scenario(url, histories) as scenario:
        scenario.probe("an interrupted creation")
        scenario.drain()
        report = scenario.check()

    assert report.ok, str(report)


def test_control_a_store_without_its_log(url, tmp_path: Path):
    histories = tmp_path / "histories"
    with Scenario(url, histories) as scenario:
        crash_at(scenario, [CrashPoint("main", "write", 1)])
        shutil.copy(tmp_path / "jobs.db", tmp_path / "copy.db")

    with Scenario(f"sqlite:///{tmp_path}/copy.db", histories) as scenario:
        scenario.drain()
        report = scenario.check()

    assert Rule.LOST in report.broken, str(report)


@pytest.mark.parametrize("point", ["wal.write.5", "wal.sync.1"])
def test_control_a_lock_that_outlives_its_holder(open_scenario, point):
    scenario = open_scenario()
    holder = scenario.start("crashing_producer", crash=point, outlives_parent=True)
    wait_for("the holder to stop", lambda: holder.has(StepType.FAULT, Phase.INVOKE))

    probe = scenario.probe("a stopped holder", timeout=1.0)
    holder.kill()
    probe.join(10)
    scenario.drain()
    report = scenario.check()

    assert report.broken == {Rule.BLOCKED}, str(report)
