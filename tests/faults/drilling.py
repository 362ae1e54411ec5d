"""How the tests of all servers run a drill."""

from pathlib import Path

from tests.harness.faults.report import Report
from tests.harness.faults.server.drill import Drill
from tests.harness.faults.server.order import Order


def run_drill(drill: Drill, place: Path, *, count: int, seed: int) -> Report:
    """Run it, and require that it came out as it must, with every fault struck."""
    report = drill.run(Order(count=count, seed=seed, folder=place / "histories"))
    print(report)
    assert drill.passes(report), str(report)
    assert sum(report.faults.values()) >= count
    return report
