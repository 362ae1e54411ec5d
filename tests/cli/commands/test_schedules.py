"""`ackline schedules`."""

from __future__ import annotations

import pytest

from ackline.core.cron import Schedule
from ackline.maintenance import Scheduler


@pytest.fixture
def reports(queues):
    queue = queues["reports"]
    daily = Schedule("daily", "0 7 * * *", kind="report", tz="Europe/Berlin")
    Scheduler(queue, [daily, Schedule("tick", "@every 60s")]).step()
    return queue


def test_lists_what_workers_have_published(cli, reports):
    answer = cli("schedules")

    assert answer.code == 0
    _, _, row = answer.out.splitlines()
    assert row.split()[:8] == ["reports", "daily", "0", "7", "*", "*", "*", "Europe/Berlin"]
    assert "(in " in row
    tick, daily = cli("schedules", "reports", "--json").document["schedules"]
    assert (tick["queue"], tick["cron"], tick["last_job"]) == ("reports", "@every 60s", None)
    assert daily["name"] == "daily"


def test_a_queue_without_schedules(cli, reports):
    assert cli("schedules", "other").out.startswith("No schedules")
    assert cli("schedules", "other", "--json").document["schedules"] == []
