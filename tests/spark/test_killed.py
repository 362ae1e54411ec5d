"""Spark's driver, killed with SIGKILL where it hurts; then started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet
import pytest

import ackline
from ackline.job import State
from ackline.testing.legal import require_legal_chains
from tests.spark.killed import POINT

ROOT = Path(__file__).parents[2]
JOBS = 100
LEASE = 5.0

pytestmark = pytest.mark.slow


def drive(url, folder, lease, point=""):
    """Run the driver; answers how it ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.killed", url, str(folder), str(lease)],
        cwd=ROOT,
        env={**os.environ, POINT: point, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=600)
        return process.returncode, said
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("point", ["read", "claimed", "sunk"])
@pytest.mark.parametrize("fate", ["alive", "lapsed", "stolen"])
def test_nothing_is_lost_and_nothing_doubled(point, fate, url, tmp_path):
    lease = 600.0 if fate == "alive" else LEASE
    taken = []
    with ackline.open(url) as queues:
        queue = queues["email"]
        queue.enqueue_many(range(JOBS))

        code, said = drive(url, tmp_path, lease, point)
        assert code == -signal.SIGKILL, said
        if fate != "alive":
            time.sleep(LEASE + 1)
        if fate == "stolen":
            taken = [job.id for job in queue.claim(10)]
        code, said = drive(url, tmp_path, lease)
        assert code == 0, said
        lake = pyarrow.parquet.read_table(tmp_path / "lake").column("id").to_pylist()

        assert len(lake) == len(set(lake))
        assert len({*lake, *taken}) == JOBS
        assert queue.counts()[State.COMPLETED] == len(lake)
        require_legal_chains(queue.events())
        if fate == "alive":
            assert {job.attempts for job in queue.jobs(limit=JOBS).jobs} == {1}
