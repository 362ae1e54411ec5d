"""On a cluster of a master and two workers: the lake, and executors killed with SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow.parquet
import pytest
from tests.spark.support.interrupted_stream import FATES, Outage
from tests.spark.support.killed_stream import Gate
from tests.spark.support.standalone_cluster import ROOT, Cluster

import ackline
from ackline.core.job import State
from ackline.testing.journal_checker import check_journal

JOBS = 200

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def url(redis_server, tmp_path):
    return f"{redis_server.url}?prefix={tmp_path.name}"


@pytest.fixture
def queues(url):
    with ackline.open(url) as queues:
        yield queues


@pytest.fixture
def outage(cluster, url, queues, tmp_path):
    return Outage(cluster.url, url, queues, tmp_path)


@pytest.fixture
def queue(queues):
    queues["email"].enqueue_many(range(JOBS), kind="welcome")
    return queues["email"]


@pytest.fixture
def drive(cluster, url, tmp_path):
    def call(what):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark.support.cluster_programs",
                what,
                cluster.url,
                url,
                str(tmp_path),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}",
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return call


@pytest.mark.parametrize("fate", FATES)
def test_an_executor_is_killed_while_it_has_claims(fate, outage, spark):
    with outage.killing("executor", "task"):
        outage.meet(fate)
    if fate == "stolen":
        # More than were waiting at the start a driver does not claim.
        outage.drive()

    outage.require_nothing_lost(spark)
    outage.require_only_expired_doubled()
    assert outage.attempts == ({1, 2} if fate == "stolen" else {1})


@pytest.mark.parametrize("fate", FATES)
def test_an_executor_is_killed_with_its_driver(fate, outage, spark):
    with outage.killing("all", "task"):
        outage.meet(fate)
    outage.drive()

    outage.require_nothing_lost(spark)
    outage.require_nothing_doubled()
    assert outage.attempts == ({1} if fate == "alive" else {1, 2})


def test_an_executor_is_killed_while_it_runs_handlers(drive, queue, tmp_path):
    drive("fleet")

    assert Gate(tmp_path).is_reached
    assert queue.counts()[State.COMPLETED] == JOBS
    again = [job for job in queue.jobs(limit=JOBS).jobs if job.attempt > 1]
    # What the lost worker held was delivered once more, and nothing else.
    assert 1 <= len(again) < JOBS
    assert {job.attempt for job in again} == {2}
    check_journal(queue.events())


def test_the_lake(drive, queue, tmp_path):
    drive("lake")

    assert pyarrow.parquet.read_table(tmp_path / "lake" / "bronze").num_rows == JOBS
    hourly = pyarrow.parquet.read_table(tmp_path / "lake" / "gold" / "hourly").to_pylist()
    assert sum(row["enqueued"] for row in hourly) == JOBS
