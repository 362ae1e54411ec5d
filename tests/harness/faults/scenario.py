"""A store under test, its processes, their faults, and the evidence."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec

from ackline.core.errors import StoreError
from ackline.core.events import Event
from ackline.core.job import LIVE, Record
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.contract import Filter
from ackline.stores.registry import store_from_url
from tests.harness.faults.checks.checker import BLOCKED, DRAIN, check
from tests.harness.faults.checks.evidence import PAUSE, Evidence
from tests.harness.faults.checks.history import History, Phase, Step, StepType, read_all
from tests.harness.faults.checks.report import Report
from tests.harness.faults.processes import (
    TIMEOUT,
    ConditionTimeout,
    ManagedProcess,
    ProcessGroup,
    wait_for,
)
from tests.harness.faults.programs.options import MAX_ATTEMPTS, QUEUE, ProgramOptions, policy
from tests.harness.faults.recording_store import RecordingStore
from tests.harness.faults.workload import SYNC, Task

PAGE = 1000

PROBE_TIMEOUT = 4.0
"""Seconds within which a store must accept a job after any fault."""


class Scenario:
    """A context with a store and a folder for the histories; leaving it ends all processes.

    >>> with Scenario("sqlite:///jobs.db", folder) as scenario:  # doctest: +SKIP
    ...     worker = scenario.start("worker")
    """

    has_one_queue = True
    """Whether the store has no other queue."""

    def __init__(self, url: str, folder: Path, *, seed: int = 0, lease: float = 0.7) -> None:
        self.url = url
        self.folder = folder
        self.seed = seed
        self.lease = lease
        self.processes = ProcessGroup()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.history = History(self.folder, "harness")
        self.queues = Queues(RecordingStore(store_from_url(self.url), self.history))
        self.queues.store.open()
        self.queue: Queue[Any, Any] = self.queues[QUEUE]
        self.queue.configure(policy=policy(self.lease))
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.__exit__(*error)
        self.queues.close()
        self.history.close()

    # --- processes ---

    def start(self, role: str, **details: Any) -> ManagedProcess:
        """Start a process of this role, with a unique name."""
        name = f"{role}-{next(self._numbers)}"
        options = ProgramOptions(
            name=name, store=self.url, folder=str(self.folder), seed=self.seed, **details
        )
        return self.processes.start(role, options)

    def drain(self, *, timeout: float = TIMEOUT, **details: Any) -> bool:
        """Let a new worker finish all jobs; False if it did not in time."""
        worker = self.start("worker", concurrency=16, **details)
        try:
            wait_for("the drain", lambda: not self.live(), timeout)
        except ConditionTimeout:
            return False
        finally:
            worker.stop()
        self.history.write(
            Step(type=StepType.PROCESS, phase=Phase.OK, act=DRAIN, worker=worker.name)
        )
        return True

    def live(self) -> int:
        """The number of unfinished jobs."""
        return sum(count for state, count in self.queue.counts().items() if state in LIVE)

    # --- faults ---

    @contextlib.contextmanager
    def fault(self, act: str, victim: str, note: str = "") -> Iterator[None]:
        """Record a fault, from before it happens until it has ended."""
        end = self.begin_fault(act, victim, note)
        yield
        self.history.write(end)

    def begin_fault(self, act: str, victim: str, note: str = "") -> Step:
        """Record the start of a fault; write the returned step when it has ended."""
        id = f"fault-{next(self._numbers)}"
        end = Step(type=StepType.FAULT, phase=Phase.OK, id=id, act=act, worker=victim)
        self.history.write(msgspec.structs.replace(end, phase=Phase.INVOKE, note=note))
        return end

    def report_violation(self, act: str, subject: str, note: str) -> None:
        """Record a forbidden effect of a fault, which the checker will report."""
        self.history.write(
            Step(type=StepType.PROCESS, phase=Phase.FAIL, act=act, worker=subject, note=note)
        )

    def probe(self, after: str, timeout: float = PROBE_TIMEOUT) -> threading.Thread:
        """Check that the store accepts jobs; reports a violation if it does not in time."""
        thread = self._try_to_enqueue(timeout)
        if thread.is_alive():
            self.report_violation(BLOCKED, after, f"no enqueue for {timeout:g} s")
        return thread

    def pause(self, process: ManagedProcess) -> Step:
        """Suspend a process while it has no lock; returns the step that ends the fault."""
        for _ in range(20):
            end = self.begin_fault(f"{PAUSE} {process.role}", process.name)
            process.send(signal.SIGSTOP)
            attempt = self._try_to_enqueue(0.3)
            if not attempt.is_alive():
                return end
            self.resume(process, end)
            attempt.join()
        raise ConditionTimeout(f"{process.name} always had a lock")

    def resume(self, process: ManagedProcess, end: Step) -> None:
        """Resume a suspended process."""
        process.send(signal.SIGCONT)
        self.history.write(end)

    def _try_to_enqueue(self, timeout: float) -> threading.Thread:
        thread = threading.Thread(target=self._enqueue_one, daemon=True)
        thread.start()
        thread.join(timeout)
        return thread

    def enqueue(self, id: str, task: Task, kind: str = SYNC) -> None:
        """Enqueue one job."""
        self.queue.enqueue({"seconds": task.seconds, "failures": task.failures}, id=id, kind=kind)

    def _enqueue_one(self) -> None:
        # On an error the outcome is unknown, and recorded as such.
        with contextlib.suppress(StoreError):
            self.enqueue(f"probe-{next(self._numbers)}", Task())

    # --- the verdict ---

    def evidence(self) -> Evidence:
        """Everything known at this time."""
        store, key = self.queue.store, self.queue.key if self.has_one_queue else None
        events: list[Event] = []
        cursor = None
        while page := store.events(key, cursor, PAGE):
            events += page
            cursor = page[-1].cursor
        return Evidence(
            steps=read_all(self.folder),
            events=events,
            records={record.id: record for record in self._records()},
            max_attempts=MAX_ATTEMPTS,
        )

    def _records(self) -> Iterator[Record]:
        cursor = None
        while True:
            page = self.queue.store.page(self.queue.key, Filter(), cursor, PAGE)
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def check(self, title: str = "") -> Report:
        """Check the evidence against the rules."""
        return check(self.evidence(), seed=self.seed, title=title)
