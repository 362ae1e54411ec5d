"""On a cluster of a master and two workers: the lake, and executors killed with SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

import ackline
from ackline.job import State
from ackline.testing.legal import require_legal_chains
from tests.spark.cluster import Cluster

ROOT = Path(__file__).parents[2]
JOBS = 200

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def queue(redis_server, tmp_path):
    with ackline.open(f"{redis_server.url}?prefix={tmp_path.name}") as queues:
        queue = queues["email"]
        queue.enqueue_many(range(JOBS), kind="welcome")
        yield queue


@pytest.fixture
def drive(cluster, redis_server, tmp_path):
    def call(what):
        url = f"{redis_server.url}?prefix={tmp_path.name}"
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.on_cluster", what, cluster.url, url, str(tmp_path)],
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


def test_an_executor_is_killed_while_it_has_claims(drive, queue, tmp_path):
    drive("claims")

    ids = pyarrow.parquet.read_table(tmp_path / "claims").column("id").to_pylist()
    assert (tmp_path / "killed").exists()
    assert sorted(ids) == sorted(job.id for job in queue.jobs(limit=JOBS).jobs)
    assert queue.counts()[State.COMPLETED] == JOBS
    assert {job.attempts for job in queue.jobs(limit=JOBS).jobs} == {1}
    require_legal_chains(queue.events())


def test_an_executor_is_killed_while_it_runs_handlers(drive, queue, tmp_path):
    drive("fleet")

    assert (tmp_path / "killed").exists()
    assert queue.counts()[State.COMPLETED] == JOBS
    again = [job for job in queue.jobs(limit=JOBS).jobs if job.attempts > 1]
    # What the lost worker held was delivered once more, and nothing else.
    assert 1 <= len(again) < JOBS
    assert {job.attempts for job in again} == {2}
    require_legal_chains(queue.events())


def test_the_lake(drive, queue, tmp_path):
    drive("lake")

    assert pyarrow.parquet.read_table(tmp_path / "lake" / "bronze").num_rows == JOBS
    hourly = pyarrow.parquet.read_table(tmp_path / "lake" / "gold" / "hourly").to_pylist()
    assert sum(row["enqueued"] for row in hourly) == JOBS
