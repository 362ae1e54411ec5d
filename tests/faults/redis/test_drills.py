"""Whatever happens to the server, no acknowledged change is lost, and none is made twice."""

import pytest

from tests.faults.drilling import run_drill
from tests.harness.faults.drills.drill import Drill
from tests.harness.faults.redis.__main__ import main
from tests.harness.faults.redis.drills import DRILLS

WITHOUT_CONTROLS = [drill for drill in DRILLS.values() if drill.breaks is None]

QUICK = {
    "server-kill-always": 3,
    "server-kill-no-log": 3,
    "client-kill": 3,
    "listener-kill": 3,
    "listener-kill-no-notifications": 3,
    "connection-cut": 3,
    "connection-cut-new-ids": 1,
    "replica-promotion-confirmed": 2,
}
"""Quick drills, and how often each fault is repeated; `./prove` runs all of them."""

REQUIRED_FIGURES = {
    "replica-promotion": "answered jobs lost, as allowed",
    "client-pause": "leases expired (extra deliveries)",
    "memory-full": "times: enqueue refused",
}
"""A figure that must be positive for the drill to prove anything."""


@pytest.mark.parametrize("name", QUICK)
def test_a_few_times(name: str, tmp_path):
    run_drill(DRILLS[name], tmp_path, count=QUICK[name], seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("drill", WITHOUT_CONTROLS, ids=lambda drill: drill.name)
def test_a_hundred_times(drill: Drill, seed, tmp_path):
    report = run_drill(drill, tmp_path, count=10 if drill.slow else 100, seed=seed)

    if drill.name in REQUIRED_FIGURES:
        assert report.figures[REQUIRED_FIGURES[drill.name]] > 0


def test_the_command_prints_a_report(tmp_path, capsys):
    histories = str(tmp_path / "histories")

    status = main(
        ["--fault", "listener-kill", "--count", "1", "--seed", "5", "--histories", histories]
    )

    assert "1 listeners killed: ok\n  seed 5" in capsys.readouterr().out
    assert status == 0
