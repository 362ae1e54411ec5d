"""Whatever happens to the server, no acknowledged change is lost, and none is made twice."""

import pytest

from tests.faults.drilling import run_drill
from tests.harness.faults.drills.drill import Drill
from tests.harness.faults.postgres.__main__ import main
from tests.harness.faults.postgres.drills import DRILLS
from tests.harness.faults.postgres.pause_points import PAUSE_POINTS

QUICK = {
    "stop": 2,
    "stop-forgetful": 2,
    "terminate": len(PAUSE_POINTS),
    "cut-commit": 3,
    "cut-resent": 1,
}
"""Drills that are quick, and how often each fault is repeated; `./prove` runs all of them."""

MORE = {"crowd": 300, "crowd-unfenced": 300}
"""Drills that count acts instead of faults."""

SHOWN = {
    "workers": "leases in flight at faults (their bound)",
    "stop": "recoveries measured",
    "cut": "enqueues with unknown outcome",
}
"""A figure that must not be zero, or the drill has shown nothing."""


@pytest.mark.parametrize("name", QUICK)
def test_a_few_times(name: str, tmp_path):
    run_drill(DRILLS[name], tmp_path, count=QUICK[name], seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("drill", DRILLS.values(), ids=lambda drill: drill.name)
def test_fifty_times(drill: Drill, seed: int, tmp_path):
    report = run_drill(drill, tmp_path, count=MORE.get(drill.name, 50), seed=seed)

    if drill.name in SHOWN:
        assert report.figures[SHOWN[drill.name]] > 0


def test_the_command_prints_a_report(tmp_path, capsys):
    histories = str(tmp_path / "histories")
    arguments = ["--fault", "terminate-listen", "--count", "2", "--seed", "5"]

    status = main([*arguments, "--histories", histories])

    assert "2 listeners cut: ok\n  seed 5" in capsys.readouterr().out
    assert status == 0
