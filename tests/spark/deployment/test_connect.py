"""The commands on Spark Connect, and the declarative pipeline: each as a user starts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.spark.support.connect_server import ConnectServer

import ackline
from ackline.core.events import Act
from ackline.core.job import State

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "spark" / "declarative"
JOBS = 30


def run(*command, cwd):
    paths = os.pathsep.join((f"{ROOT}/src", str(ROOT)))
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def queue(sqlite_url):
    """Jobs of which some have completed and one has failed."""
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        queue.enqueue_many(range(JOBS), priority=7)
        for job in queue.claim(10):
            queue.complete(job)
        queue.bury(queue.claim(1)[0], "no")
        yield queue


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.mark.slow
def test_the_commands_on_spark_connect(server, queue, sqlite_url, tmp_path):
    def pipeline(*arguments):
        on = ("--master", server.url, "--shared-files")
        command = (sys.executable, "-m", "ackline", "--json", "--store", sqlite_url, "pipeline")
        return json.loads(run(*command, *arguments, *on, cwd=tmp_path))

    ran = pipeline("run", "--lake", str(tmp_path / "lake"))
    again = pipeline("run", "--lake", str(tmp_path / "lake"))
    audit = pipeline("audit")
    redriven = pipeline("redrive", "--where", "queue = 'email'")

    assert (ran["events"], ran["ended"], again["events"]) == (len(list(queue.events())) - 1, 11, 0)
    hourly = pyarrow.parquet.read_table(tmp_path / "lake" / "gold" / "hourly").to_pylist()
    assert sum(row["enqueued"] for row in hourly) == JOBS
    assert {row["priority"] for row in hourly} == {7}
    assert audit["passed"]
    assert redriven["redriven"] == {"email": 1}
    assert queue.counts()[State.FAILED] == 0


@pytest.mark.slow
def test_the_declarative_pipeline(queue, sqlite_url, tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    spec.write_text(
        spec.read_text().replace("file:///tmp/ackline-pipeline", f"file://{tmp_path}/s")
    )
    program = str(Path(sys.executable).parent / "spark-pipelines")
    settings = ("--conf", f"spark.ackline.store={sqlite_url}", "--conf", "spark.ui.enabled=false")

    run(program, "run", *settings, cwd=tmp_path / "pipeline")

    tables = tmp_path / "pipeline" / "spark-warehouse"
    events = pyarrow.parquet.read_table(tables / "events").to_pylist()
    assert [row["act"] for row in events].count(Act.ENQUEUE) == JOBS
    outcomes = [row["outcome"] for row in pyarrow.parquet.read_table(tables / "jobs").to_pylist()]
    assert (outcomes.count("completed"), outcomes.count("failed")) == (10, 1)
    hourly = pyarrow.parquet.read_table(tables / "hourly").to_pylist()
    assert sum(row["completed"] for row in hourly) == 10
