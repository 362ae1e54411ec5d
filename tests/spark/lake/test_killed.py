"""`ackline pipeline run` killed with SIGKILL: the next run makes the lake as if nothing was."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.support.job_histories import all_events, live_through
from tests.spark.support.killed_lake_run import BATCH_EVENTS
from tests.spark.support.lake_and_store import Appending, Lakeside, contents, counted, counted_in

from ackline.spark.audit.effective_limits import limits_table
from ackline.spark.audit.findings import findings
from ackline.spark.audit.run import run_audit
from ackline.spark.lake import compaction

# Each run is a program of its own that starts Spark. In the check, runs die within one: test_lake.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

POINTS = (
    *("bronze:1", "bronze:3", "jobs:2", "open:2", "traffic:1", "workers:2", "errors:3"),
    *("written:3", "written:8", "counted:2"),
    *("logged:1", "logged:3", "ran:1", "published:1"),
    *("changing:4", "changing:11", "changing:24", "changing:30"),
    *("renamed:5", "renamed:12", "renamed:24", "renamed:30"),
    *("aside:3", "noted:1", "switched:1", "removed:3", "placed:2", "replaced:1"),
    *("unlinked:1", "unlinked:4"),
)
"""Between bronze and silver, between the parts of silver, before and after gold; while batches
are put together, within every step of it; and before and after a change of any kind."""

MOMENTS = [random.Random(seed).uniform(0.0, 12.0) for seed in range(9)]


def run_and_kill(where, side, lake):
    """Answers whether it was killed: a run may be over before its time has come."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.support.killed_lake_run", where, side.url, str(lake)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode != 0


@pytest.fixture(scope="module")
def side(spark, tmp_path_factory):
    """Several batches of a history in which all sorts of things have happened."""
    side = Lakeside(spark, tmp_path_factory.mktemp("killed"))
    live_through(side.queues, side.clock, 20)
    yield side
    side.queues.close()


@pytest.fixture(scope="module")
def undisturbed(side, tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "lake"
    side.run(lake=path, reader=None, events_per_batch=BATCH_EVENTS)
    found = contents(path)
    assert len(found["bronze/events"]) == len(all_events(side.queues))
    return found


def audit_of_lake(side, lake):
    """What the audit finds in the events that a lake has, compared with the jobs of the store."""
    events = side.spark.read.parquet(f"{lake}/bronze/events")
    jobs = side.spark.read.format("ackline").option("store", side.url).load("jobs")
    limits = limits_table(
        side.spark, side.queues.store, side.queues.describe(), side.queues.store.now()
    )
    return {row["finding"] for row in findings(events, jobs, limits).collect()}


def test_killed_between_silver_and_gold(side, undisturbed, tmp_path):
    lake, appended = tmp_path / "lake", tmp_path / "appended"
    assert run_and_kill("jobs:2", side, lake)
    assert not (lake / "gold").exists()
    shutil.copytree(lake, appended)

    side.run(lake=lake, events_per_batch=BATCH_EVENTS)
    side.run(lake=appended, batch=Appending, events_per_batch=BATCH_EVENTS)

    assert contents(lake) == undisturbed
    assert audit_of_lake(side, lake) == set()
    # The control: with another sink the kill would be seen, by the audit too.
    assert len(contents(appended)["bronze/events"]) > len(undisturbed["bronze/events"])
    assert "broken" in audit_of_lake(side, appended)


@pytest.mark.parametrize("where", [*POINTS, *map(str, MOMENTS)])
def test_killed_anywhere(where, side, undisturbed, tmp_path, monkeypatch):
    lake = tmp_path / "lake"
    killed = run_and_kill(where, side, lake)
    assert killed or where in map(str, MOMENTS)
    monkeypatch.setattr(compaction, "TOGETHER", 2)

    side.run(lake=lake, events_per_batch=BATCH_EVENTS)
    side.run(lake=lake, events_per_batch=BATCH_EVENTS)

    assert contents(lake) == undisturbed
    side.path = str(lake)
    assert counted_in(side.gold("hourly")) == counted(all_events(side.queues))
    assert audit_of_lake(side, lake) == set()
    assert run_audit(side.spark, side.url, side.queues).proven
