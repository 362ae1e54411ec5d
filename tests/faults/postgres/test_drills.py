"""Whatever happens to the server, no acknowledged change is lost, and none is made twice."""

import pytest

from tests.faults.drilling import run_drill
from tests.harness.faults.drills.drill import Drill
from tests.harness.faults.postgres.__main__ import main
from tests.harness.faults.postgres.drills import DRILLS
from tests.harness.faults.postgres.pause_points import PAUSE_POINTS

QUICK = {
    "server-kill": 2,
    "server-kill-async-commit": 2,
    "terminate-session": len(PAUSE_POINTS),
    "connection-cut-at-commit": 3,
    "connection-cut-new-ids": 1,
}
"""Drills that are quick, and how often each fault is repeated; `./prove` runs all of them."""

ACTS = {"contention": 300, "contention-unfenced": 300}
"""Drills that count acts instead of faults."""

REQUIRED_FIGURES = {
    "worker-kill": "leases in flight at faults (their bound)",
    "server-kill": "recoveries measured",
    "connection-cut": "enqueues with unknown outcome",
}
"""A figure that must not be zero, or the drill proves nothing."""


@pytest.mark.parametrize("name", QUICK)
def test_a_few_times(name: str, tmp_path):
    run_drill(DRILLS[name], tmp_path, count=QUICK[name], seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("drill", DRILLS.values(), ids=lambda drill: drill.name)
def test_fifty_times(drill: Drill, seed: int, tmp_path):
    report = run_drill(drill, tmp_path, count=ACTS.get(drill.name, 50), seed=seed)

    if drill.name in REQUIRED_FIGURES:
        assert report.figures[REQUIRED_FIGURES[drill.name]] > 0


def test_the_command_prints_a_report(tmp_path, capsys):
    histories = str(tmp_path / "histories")
    arguments = ["--fault", "terminate-listener", "--count", "2", "--seed", "5"]

    status = main([*arguments, "--histories", histories])

    assert "2 listeners killed: ok\n  seed 5" in capsys.readouterr().out
    assert status == 0
