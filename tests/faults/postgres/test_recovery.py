"""After an outage, workers soon process jobs again, at full speed."""

import pytest

from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.outage_recovery import OUTAGES, full_speed, next_job, table
from tests.harness.faults.postgres.server import KillablePostgres

SLOWEST = 8.0
"""Seconds; the longest delay of a worker between two attempts is five."""

FULL_SPEED = 5.0
"""Seconds, on a machine that is not idle."""


# Slow, because it compares two rates, which other tests would change.
@pytest.mark.slow
def test_at_full_speed_within_seconds(tmp_path):
    with KillablePostgres() as server:
        measured = full_speed(server, DrillOptions(count=1, folder=tmp_path / "histories"))
    print(table([measured]))

    assert max(measured.seconds) < FULL_SPEED


@pytest.mark.slow
@pytest.mark.parametrize("outage", OUTAGES)
def test_after_outages(outage, tmp_path):
    with KillablePostgres() as server:
        measured = next_job(server, DrillOptions(count=10, folder=tmp_path / "histories"), outage)
    print(table([measured]))

    assert len(measured.seconds) == 10
    assert max(measured.seconds) < SLOWEST
