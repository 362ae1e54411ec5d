"""Run a drill in a test."""

from pathlib import Path

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import Drill, DrillOptions


def run_drill(drill: Drill, folder: Path, *, count: int, seed: int) -> Report:
    """Run it, and check that its report is as expected and that every fault was injected."""
    report = drill.run(DrillOptions(count=count, seed=seed, folder=folder / "histories"))
    print(report)
    assert drill.passes(report), str(report)
    assert sum(report.faults.values()) >= count
    return report
