"""A stream of claims that is disturbed: what a test does to it, and what must hold afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
from tests.spark.support.killed_stream import BATCH, STREAM, Gate
from tests.spark.support.standalone_cluster import ROOT
from tests.waiting import until

from ackline.core import lifecycle
from ackline.core.config import DEFAULTS
from ackline.core.job import Record, State
from ackline.core.lifecycle import Verdict
from ackline.queues import Queues
from ackline.spark.audit.run import run_audit
from ackline.spark.worker_names import stream_worker
from ackline.testing.journal_checker import check_journal

JOBS = 2 * BATCH
"""Nothing else waits when the second micro-batch is disturbed: who claims then, steals."""

STOLEN = 10

FATES = ("alive", "lapsed", "stolen")
"""What becomes of the stream's leases."""


class Outage:
    """A stream on Spark, its store, and what has been done to it."""

    def __init__(self, master: str, url: str, queues: Queues, folder: Path) -> None:
        self._master = master
        self._url = url
        self._queues = queues
        self._folder = folder
        self._queue = queues["email"]
        self._queue.enqueue_many(range(JOBS))
        self.expired: set[str] = set()
        """What went back to the queue while the stream held it."""
        self.stolen: set[str] = set()
        """What of that another worker has claimed."""

    # --- what is done ---

    def drive(self) -> None:
        """Read the stream to its end."""
        with self._process() as process:
            self._require_end(process, 0)

    @contextmanager
    def killing(self, victim: str, point: str) -> Iterator[None]:
        """Read the stream while a process of it dies; the block runs when the leases are held.

        A driver is dead by then. A worker or an executor dies after the block, and its driver
        must come to its end without it.
        """
        gate = Gate(self._folder)
        with self._process(f"{victim}:{point}") as process:
            if victim in ("worker", "executor"):
                until(lambda: gate.is_reached or process.poll() is not None, 300.0)
                yield
                gate.open()
                self._require_end(process, 0)
            else:
                self._require_end(process, -signal.SIGKILL)
                yield
        assert gate.is_reached

    def meet(self, fate: str) -> None:
        """Let the leases of the stream live, lapse, or lapse and some of them be stolen."""
        if fate == "alive":
            return
        held = self._leases(worker=stream_worker(STREAM))
        assert len(held) == BATCH
        self._require_applied(self._queue.apply([lifecycle.extend(each, 0.0) for each in held]))
        if fate == "stolen":
            self._require_applied(self._queue.expire(self._leases()))
            self.expired = {record.id for record in held}
            self.stolen = {job.id for job in self._queue.claim(STOLEN, lease=3600.0)}
            assert len(self.stolen & self.expired) == STOLEN

    def _require_applied(self, verdicts: list[Verdict]) -> None:
        assert [verdict.applied for verdict in verdicts] == [True] * BATCH

    def _leases(self, worker: str | None = None) -> list[Record]:
        """Those that have lapsed, or all that a worker holds."""
        return self._queues.store.leases(self._queue.key, worker=worker, limit=JOBS)

    # --- what must hold ---

    @property
    def lake(self) -> Counter[str]:
        """How often the lake has each job."""
        found = pyarrow.parquet.read_table(self._folder / "lake").column("id")
        return Counter(found.to_pylist())

    @property
    def attempts(self) -> set[int]:
        return {job.attempt for job in self._queue.jobs(limit=JOBS).jobs}

    def require_nothing_lost(self, spark: Any) -> None:
        """Each job is in the lake or with the thief, has ended once, and the audit agrees."""
        everyone = {job.id for job in self._queue.jobs(limit=2 * JOBS).jobs}
        assert len(everyone) == JOBS
        assert {*self.lake, *self.stolen} == everyone
        counts = self._queue.counts()
        assert counts[State.COMPLETED] == JOBS - len(self.stolen)
        assert counts[State.PROCESSING] == len(self.stolen)
        check_journal(self._queue.events())
        kept = DEFAULTS.result_ttl
        audit = run_audit(spark, self._url, self._queues, result_ttl=kept)
        assert audit.proven, audit.findings
        assert audit.jobs == JOBS

    def require_nothing_doubled(self) -> None:
        """No job is in the lake twice, nor with the thief as well."""
        assert set(self.lake.values()) == {1}
        assert not self.stolen & self.lake.keys()

    def require_only_expired_doubled(self) -> None:
        """A driver that lives on has handed out what it then lost: that comes again, no more."""
        twice = {id for id, times in self.lake.items() if times > 1}
        assert twice == self.expired - self.stolen
        assert self.lake.total() == JOBS + len(twice)

    # --- the driver's process ---

    @contextmanager
    def _process(self, death: str = "") -> Iterator[subprocess.Popen[bytes]]:
        words = [self._master, self._url, str(self._folder), *filter(None, [death])]
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.support.killed_stream", *words],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"},
                start_new_session=True,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _require_end(self, process: subprocess.Popen[bytes], code: int) -> None:
        assert process.wait(timeout=600) == code, (self._folder / "log").read_text()
