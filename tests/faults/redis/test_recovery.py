"""After an outage, workers soon process jobs again."""

import pytest

from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.outage_recovery import OUTAGES, next_job, table
from tests.harness.faults.redis.outage_recovery import make_server

SLOWEST = 8.0
"""Seconds; the longest delay between two attempts of a worker is five."""


def check(outage, count, tmp_path):
    with make_server() as server:
        measured = next_job(
            server, DrillOptions(count=count, folder=tmp_path / "histories"), outage
        )
    print(table([measured]))
    assert len(measured.seconds) == count
    assert max(measured.seconds) < SLOWEST


def test_after_a_restart(tmp_path):
    check(0.0, 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("outage", OUTAGES)
def test_after_outages(outage, tmp_path):
    check(outage, 10, tmp_path)
