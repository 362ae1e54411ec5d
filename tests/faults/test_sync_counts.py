"""`full` syncs every answered enqueue; `normal`, the control, does not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.faults.sync_counts import JOBS, TRACE, syncs_below_sqlite, syncs_in_trace

ROOT = Path(__file__).parents[2]


def traced(url: str) -> list[int]:
    """The syncs that strace has seen; without strace, those that SQLite has requested."""
    command = [sys.executable, "-m", "tests.harness.faults.sync_counts", url]
    if shutil.which(TRACE[0]) is None:
        return syncs_below_sqlite(url)
    run = subprocess.run([*TRACE, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if "ptrace" in run.stderr and run.returncode:
        return syncs_below_sqlite(url)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.count("answered") == JOBS
    return syncs_in_trace(run.stderr.splitlines())


@pytest.mark.parametrize("count_syncs", [traced, syncs_below_sqlite])
def test_full_syncs_before_each_answer(url, count_syncs):
    syncs = count_syncs(f"{url}?durability=full")

    assert len(syncs) == JOBS
    assert all(syncs), f"answered without a sync: {syncs}"


@pytest.mark.parametrize("count_syncs", [traced, syncs_below_sqlite])
def test_control_normal_does_not(url, count_syncs):
    syncs = count_syncs(f"{url}?durability=normal")

    assert syncs == [0] * JOBS
