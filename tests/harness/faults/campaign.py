"""Random faults, drawn by a seed, against busy producers, workers and a supervisor."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tests.harness.faults.checks.checker import ORPHANED
from tests.harness.faults.checks.evidence import PAUSE
from tests.harness.faults.checks.report import Report
from tests.harness.faults.crash_points import CrashPoint
from tests.harness.faults.processes import ManagedProcess, SupervisedWorker, children_of
from tests.harness.faults.scenario import Scenario

STOP_TIMEOUT = 15.0
"""Seconds within which the workers of a killed supervisor must have ended."""

BUSY_TIMEOUT = 0.3
"""Seconds to wait for a victim that is running a job."""

STARTING_VICTIMS = 0.1
"""The fraction of faults that may also hit a process that is still starting."""


class CampaignPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, which faults to inject, and for how long."""

    store: str
    faults: int = 50
    seed: int = 1
    seconds: float = 60.0
    """No faults are injected after this time."""
    lease: float = 1.0
    workers: int = 2
    producers: int = 2
    supervised: int = 2
    variant: str = ""
    """The name of a control, see `broken_stores`; the final drain runs without it."""


class Campaign:
    """Replaces processes that were killed, and injects faults.

    >>> print(Campaign(CampaignPlan(store="sqlite:///jobs.db"), folder).run())  # doctest: +SKIP
    """

    def __init__(self, plan: CampaignPlan, folder: Path) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.scenario = Scenario(plan.store, folder, seed=plan.seed, lease=plan.lease)
        self.processes = self.scenario.processes
        self._paused: list[threading.Timer] = []
        self._fault_queue: list[str] = []

    def run(self) -> Report:
        """Inject the faults, drain, check."""
        end = time.monotonic() + self.plan.seconds
        with self.scenario as scenario:
            injected = 0
            while injected < self.plan.faults and time.monotonic() < end:
                self._replace_processes()
                injected += self._inject_next()
                time.sleep(self.random.uniform(0.0, 0.1))
            self._stop_processes()
            scenario.drain(timeout=60.0)
            return scenario.check(f"{injected} faults on {self.plan.store}")

    # --- processes ---

    def _replace_processes(self) -> None:
        plan = self.plan
        for role, count in (
            ("producer", plan.producers),
            ("worker", plan.workers),
            ("supervisor", 1 if plan.supervised else 0),
            ("journal_reader", 1),
        ):
            for _ in range(count - len(self.processes.running(role))):
                details = {"processes": plan.supervised, "variant": plan.variant}
                self.scenario.start(role, max_pause=0.05, **details)

    def _stop_processes(self) -> None:
        for timer in self._paused:
            timer.join()
        for role in ("producer", "supervisor", "worker", "journal_reader"):
            for process in self.processes.running(role):
                process.stop()

    # --- the faults ---

    def _inject_next(self) -> int:
        """Inject the next fault; 0 if there was no process for it."""
        if not self._fault_queue:
            self._fault_queue = [
                name for name, weight in self._weights().items() for _ in range(weight)
            ]
            self.random.shuffle(self._fault_queue)
        faults: Mapping[str, Callable[[], bool]] = {
            "kill worker": lambda: self._kill("worker"),
            "kill producer": lambda: self._kill("producer"),
            "kill supervised worker": self._kill_child,
            "kill supervisor": self._kill_supervisor,
            "pause worker": self._pause,
            "crash": self._crash,
        }
        if not faults[self._fault_queue[-1]]():
            return 0
        self._fault_queue.pop()
        return 1

    def _weights(self) -> dict[str, int]:
        """The relative frequency of each fault."""
        weights = {"kill worker": 7, "kill producer": 3, "pause worker": 3}
        if self.plan.supervised:
            weights |= {"kill supervised worker": 3, "kill supervisor": 1}
        if self.scenario.queue.store.capabilities.name == "sqlite":
            weights |= {"crash": 3}
        return weights

    def _victim(self, role: str) -> ManagedProcess | None:
        """A random busy process; sometimes one that is still starting."""
        ready = [process for process in self.processes.running(role) if process.ready]
        if self.random.random() > STARTING_VICTIMS:
            ready = [process for process in ready if process.has_worked()]
        return self.random.choice(ready) if ready else None

    def _kill(self, role: str) -> bool:
        victim = self._victim(role)
        if victim is None:
            return False
        if role == "worker":
            _wait_until_busy(victim)
        with self.scenario.fault(f"kill {role}", victim.name):
            victim.kill()
        return True

    def _kill_child(self) -> bool:
        children = self._children()
        if not children:
            return False
        victim = self.random.choice(children)
        with self.scenario.fault("kill supervised worker", victim.name):
            victim.kill()
        return True

    def _kill_supervisor(self) -> bool:
        children = self._children()
        if not children:
            return False
        (supervisor,) = self.processes.running("supervisor")
        with self.scenario.fault("kill supervisor", supervisor.name):
            supervisor.kill()
            expect_workers_stopped(self.scenario, children)
        return True

    def _children(self) -> list[SupervisedWorker]:
        return [
            child
            for process in self.processes.running("supervisor")
            for child in children_of(process)
        ]

    def _pause(self) -> bool:
        victim = self._victim("worker")
        if victim is None:
            return False
        end = self.scenario.begin_fault(f"{PAUSE} worker past its leases", victim.name)
        victim.send(signal.SIGSTOP)
        seconds = self.plan.lease * self.random.uniform(1.3, 2.5)
        # In a timer, because this thread may wait for a lock that the stopped process has.
        timer = threading.Timer(seconds, self.scenario.resume, (victim, end))
        timer.start()
        self._paused.append(timer)
        return True

    def _crash(self) -> bool:
        crash_producer(self.scenario, random_crash_point(self.random))
        return True


def _wait_until_busy(worker: ManagedProcess) -> None:
    """Wait for it to run a job, as killing an idle worker tests little."""
    end = time.monotonic() + BUSY_TIMEOUT
    while not worker.busy and time.monotonic() < end:
        time.sleep(0.001)


def random_crash_point(random: random.Random) -> CrashPoint:
    """A random point in a write to the WAL, or in a checkpoint."""
    file, operation, limit = random.choice(
        (
            ("wal", "write", 60),
            ("wal", "tear", 60),
            ("wal", "sync", 4),
            ("main", "write", 40),
            ("main", "tear", 40),
            ("main", "sync", 3),
        )
    )
    return CrashPoint(file, operation, random.randint(1, limit))


def crash_producer(scenario: Scenario, point: CrashPoint) -> ManagedProcess:
    """Let a process kill itself at a point, and check that it leaves nothing locked."""
    producer = scenario.start("crashing_producer", crash=str(point))
    producer.wait()
    scenario.probe(f"{producer.name}, killed at {point}")
    return producer


def expect_workers_stopped(
    scenario: Scenario, children: list[SupervisedWorker], timeout: float = STOP_TIMEOUT
) -> None:
    """Report a violation if workers of a killed supervisor do not stop by themselves."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if not any(child.alive for child in children):
            return
        time.sleep(0.02)
    for child in children:
        if child.alive:
            scenario.report_violation(ORPHANED, child.name, f"still runs after {timeout:g} s")
