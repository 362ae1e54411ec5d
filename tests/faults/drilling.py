"""How the tests of all servers run a drill."""

from pathlib import Path

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import Drill, DrillOptions


def run_drill(drill: Drill, place: Path, *, count: int, seed: int) -> Report:
    """Run it, and require that it came out as it must, with every fault struck."""
    report = drill.run(DrillOptions(count=count, seed=seed, folder=place / "histories"))
    print(report)
    assert drill.passes(report), str(report)
    assert sum(report.faults.values()) >= count
    return report
