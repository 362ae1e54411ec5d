"""Whatever happens to the server, nothing that it confirmed is lost, and nothing is done twice."""

import pytest

from tests.faults.drilling import run_drill
from tests.harness.faults.drills.drill import Drill
from tests.harness.faults.redis.__main__ import main
from tests.harness.faults.redis.drills import DRILLS

HONEST = [drill for drill in DRILLS.values() if drill.breaks is None]

QUICK = {
    "server-always": 3,
    "server-none": 3,
    "client-kill": 3,
    "wake-up": 3,
    "wake-up-deaf": 3,
    "cut": 3,
    "cut-resent": 1,
    "promotion-awaited": 2,
}
"""Some of the faults, with the number of times (for a control, until it must fail)."""

SHOWN = {
    "promotion": "answered jobs lost, as allowed",
    "client-pause": "leases expired (extra deliveries)",
    "memory": "times: enqueue refused",
}
"""A figure that must be positive for the drill to prove anything."""


@pytest.mark.parametrize("name", QUICK)
def test_a_few_times(name: str, tmp_path):
    run_drill(DRILLS[name], tmp_path, count=QUICK[name], seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("drill", HONEST, ids=lambda drill: drill.name)
def test_a_hundred_times(drill: Drill, seed, tmp_path):
    report = run_drill(drill, tmp_path, count=10 if drill.slow else 100, seed=seed)

    if drill.name in SHOWN:
        assert report.figures[SHOWN[drill.name]] > 0


def test_the_command_prints_a_report(tmp_path, capsys):
    histories = str(tmp_path / "histories")

    status = main(["--fault", "wake-up", "--count", "1", "--seed", "5", "--histories", histories])

    assert "1 listeners cut: ok\n  seed 5" in capsys.readouterr().out
    assert status == 0
