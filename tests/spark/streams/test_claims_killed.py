"""Spark on one machine: its driver and its Python workers, killed with SIGKILL where it hurts."""

from __future__ import annotations

import apsw
import pytest
from tests.spark.support.interrupted_stream import FATES, Outage

import ackline
from ackline.spark.audit.run import run_audit

pytestmark = pytest.mark.slow

MASTER = "local[2,4]"
"""As on a cluster, a task may fail three times."""


@pytest.fixture
def outage(url, tmp_path):
    with ackline.open(url) as queues:
        yield Outage(MASTER, url, queues, tmp_path)


@pytest.mark.parametrize("point", ["task", "claimed", "sunk"])
@pytest.mark.parametrize("fate", FATES)
def test_a_driver_is_killed(point, fate, outage, spark):
    with outage.killing("driver", point):
        outage.meet(fate)
    outage.drive()

    outage.require_nothing_lost(spark)
    outage.require_nothing_doubled()
    assert outage.attempts == ({1} if fate == "alive" else {1, 2})


@pytest.mark.parametrize("point", ["read", "task"])
def test_a_python_worker_is_killed(point, outage, spark):
    with outage.killing("worker", point):
        pass

    outage.require_nothing_lost(spark)
    outage.require_nothing_doubled()
    assert outage.attempts == {1}


@pytest.mark.parametrize("fate", ["lapsed", "stolen"])
def test_a_python_worker_is_killed_and_the_leases_lapse(fate, outage, spark):
    with outage.killing("worker", "task"):
        outage.meet(fate)
    if fate == "stolen":
        # More than were waiting at the start a driver does not claim.
        outage.drive()

    outage.require_nothing_lost(spark)
    outage.require_only_expired_doubled()
    assert outage.attempts == ({1, 2} if fate == "stolen" else {1})


def test_the_audit_would_see_a_job_that_is_gone(sqlite_url, tmp_path, spark):
    """The control: one that the thief holds is removed behind the store's back."""
    with ackline.open(sqlite_url) as queues:
        outage = Outage(MASTER, sqlite_url, queues, tmp_path)
        with outage.killing("driver", "task"):
            outage.meet("stolen")
        outage.drive()
        outage.require_nothing_lost(spark)
        gone = min(outage.stolen)
        apsw.Connection(str(tmp_path / "jobs.db")).execute("delete from job where id = ?", (gone,))

        audit = run_audit(spark, sqlite_url, queues)

    assert [(found["finding"], found["id"]) for found in audit.findings] == [("lost", gone)]
