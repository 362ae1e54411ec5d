"""One store under test: its processes, the faults they meet, and what is known in the end."""

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
"""Seconds within which a store must take a job again after any fault."""


class Scenario:
    """Enter it with an empty store and a folder for the histories; leaving ends all processes.

    >>> with Scene("sqlite:///jobs.db", folder) as scene:  # doctest: +SKIP
    ...     worker = scene.start("worker")
    """

    has_one_queue = True
    """Whether nothing but its queue is in the store."""

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
        """Start a process of this role; every one has a name of its own."""
        name = f"{role}-{next(self._numbers)}"
        assignment = ProgramOptions(
            name=name, store=self.url, folder=str(self.folder), seed=self.seed, **details
        )
        return self.processes.start(role, assignment)

    def drain(self, *, patience: float = TIMEOUT, **details: Any) -> bool:
        """Let a new worker finish all jobs; False if it could not."""
        worker = self.start("worker", concurrency=16, **details)
        try:
            wait_for("the drain", lambda: not self.live(), patience)
        except ConditionTimeout:
            return False
        finally:
            worker.stop()
        self.history.write(
            Step(type=StepType.PROCESS, phase=Phase.OK, act=DRAIN, worker=worker.name)
        )
        return True

    def live(self) -> int:
        """How many jobs are not finished."""
        return sum(count for state, count in self.queue.counts().items() if state in LIVE)

    # --- faults ---

    @contextlib.contextmanager
    def fault(self, act: str, victim: str, note: str = "") -> Iterator[None]:
        """Note a fault, from before it strikes until it is over."""
        end = self.begin_fault(act, victim, note)
        yield
        self.history.write(end)

    def begin_fault(self, act: str, victim: str, note: str = "") -> Step:
        """Note the beginning of a fault; write the returned step when it is over."""
        id = f"fault-{next(self._numbers)}"
        end = Step(type=StepType.FAULT, phase=Phase.OK, id=id, act=act, worker=victim)
        self.history.write(msgspec.structs.replace(end, phase=Phase.INVOKE, note=note))
        return end

    def report_violation(self, act: str, about: str, note: str) -> None:
        """Note an effect of a fault that must not be; the checker will report it."""
        self.history.write(
            Step(type=StepType.PROCESS, phase=Phase.FAIL, act=act, worker=about, note=note)
        )

    def probe(self, after: str, patience: float = PROBE_TIMEOUT) -> threading.Thread:
        """Check that the store takes jobs; complains if it does not within a few seconds."""
        thread = self._try_to_enqueue(patience)
        if thread.is_alive():
            self.report_violation(BLOCKED, after, f"no enqueue for {patience:g} s")
        return thread

    def pause(self, member: ManagedProcess) -> Step:
        """Stop a process while it holds nothing locked; returns the step that ends the fault."""
        for _ in range(20):
            end = self.begin_fault(f"{PAUSE} {member.role}", member.name)
            member.send(signal.SIGSTOP)
            attempt = self._try_to_enqueue(0.3)
            if not attempt.is_alive():
                return end
            self.resume(member, end)
            attempt.join()
        raise ConditionTimeout(f"{member.name} was never met without a lock")

    def resume(self, member: ManagedProcess, end: Step) -> None:
        """Let a stopped process go on."""
        member.send(signal.SIGCONT)
        self.history.write(end)

    def _try_to_enqueue(self, patience: float) -> threading.Thread:
        thread = threading.Thread(target=self._enqueue_one, daemon=True)
        thread.start()
        thread.join(patience)
        return thread

    def enqueue(self, id: str, task: Task, kind: str = SYNC) -> None:
        """Enqueue one job."""
        self.queue.enqueue({"seconds": task.seconds, "failures": task.failures}, id=id, kind=kind)

    def _enqueue_one(self) -> None:
        # On an error the outcome is unknown, and noted so.
        with contextlib.suppress(StoreError):
            self.enqueue(f"probe-{next(self._numbers)}", Task())

    # --- the verdict ---

    def evidence(self) -> Evidence:
        """All that is known now."""
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
