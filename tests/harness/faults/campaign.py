"""Many faults, drawn by a seed, against producers, workers and a supervisor at full work."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tests.harness.faults.case import PAUSE
from tests.harness.faults.checker import ORPHANED
from tests.harness.faults.crash_points import CrashPoint
from tests.harness.faults.crew import Child, Member, children_of
from tests.harness.faults.report import Report
from tests.harness.faults.scene import Scene

STOP_PATIENCE = 15.0
"""Seconds within which the workers of a killed supervisor must have ended."""

IN_HAND = 0.3
"""Seconds to wait until a victim has a job in hand."""

HARDLY_BEGUN = 0.1
"""The share of faults that may also strike a process that is still starting."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what, and for how long."""

    store: str
    faults: int = 50
    seed: int = 1
    seconds: float = 60.0
    """No more faults after this time, however few there were."""
    lease: float = 1.0
    workers: int = 2
    producers: int = 2
    supervised: int = 2
    variant: str = ""
    """The name of a control, see `variants`, for all but the final drain."""


class Campaign:
    """Keeps enough processes running, and injects faults.

    >>> print(Campaign(Plan(store="sqlite:///jobs.db"), folder).run())  # doctest: +SKIP
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.scene = Scene(plan.store, folder, seed=plan.seed, lease=plan.lease)
        self.crew = self.scene.crew
        self._paused: list[threading.Timer] = []
        self._deck: list[str] = []

    def run(self) -> Report:
        """Inject the faults, drain, check."""
        until = time.monotonic() + self.plan.seconds
        with self.scene as scene:
            struck = 0
            while struck < self.plan.faults and time.monotonic() < until:
                self._keep_up()
                struck += self._strike()
                time.sleep(self.random.uniform(0.0, 0.1))
            self._stand_down()
            scene.drain(patience=60.0)
            return scene.check(f"{struck} faults on {self.plan.store}")

    # --- the crew ---

    def _keep_up(self) -> None:
        plan = self.plan
        for role, wanted in (
            ("producer", plan.producers),
            ("worker", plan.workers),
            ("supervisor", 1 if plan.supervised else 0),
            ("reader", 1),
        ):
            for _ in range(wanted - len(self.crew.having(role))):
                details = {"processes": plan.supervised, "variant": plan.variant}
                self.scene.start(role, pause=0.05, **details)

    def _stand_down(self) -> None:
        for timer in self._paused:
            timer.join()
        for role in ("producer", "supervisor", "worker", "reader"):
            for member in self.crew.having(role):
                member.stop()

    # --- the faults ---

    def _strike(self) -> int:
        """Inject the next fault; 0 if there was no process to strike."""
        if not self._deck:
            self._deck = [name for name, weight in self._weights().items() for _ in range(weight)]
            self.random.shuffle(self._deck)
        strikes: Mapping[str, Callable[[], bool]] = {
            "kill worker": lambda: self._kill("worker"),
            "kill producer": lambda: self._kill("producer"),
            "kill supervised worker": self._kill_child,
            "kill supervisor": self._kill_supervisor,
            "pause worker": self._pause,
            "crash": self._crash,
        }
        if not strikes[self._deck[-1]]():
            return 0
        self._deck.pop()
        return 1

    def _weights(self) -> dict[str, int]:
        """How often each fault comes in twenty."""
        weights = {"kill worker": 7, "kill producer": 3, "pause worker": 3}
        if self.plan.supervised:
            weights |= {"kill supervised worker": 3, "kill supervisor": 1}
        if self.scene.queue.store.capabilities.name == "sqlite":
            weights |= {"crash": 3}
        return weights

    def _victim(self, role: str) -> Member | None:
        """A process at work; now and then, one that has hardly begun."""
        ready = [member for member in self.crew.having(role) if member.ready]
        if self.random.random() > HARDLY_BEGUN:
            ready = [member for member in ready if member.has_worked()]
        return self.random.choice(ready) if ready else None

    def _kill(self, role: str) -> bool:
        victim = self._victim(role)
        if victim is None:
            return False
        if role == "worker":
            _wait_until_busy(victim)
        with self.scene.fault(f"kill {role}", victim.name):
            victim.kill()
        return True

    def _kill_child(self) -> bool:
        children = self._children()
        if not children:
            return False
        victim = self.random.choice(children)
        with self.scene.fault("kill supervised worker", victim.name):
            victim.kill()
        return True

    def _kill_supervisor(self) -> bool:
        children = self._children()
        if not children:
            return False
        (supervisor,) = self.crew.having("supervisor")
        with self.scene.fault("kill supervisor", supervisor.name):
            supervisor.kill()
            expect_end(self.scene, children)
        return True

    def _children(self) -> list[Child]:
        return [child for member in self.crew.having("supervisor") for child in children_of(member)]

    def _pause(self) -> bool:
        victim = self._victim("worker")
        if victim is None:
            return False
        end = self.scene.begin_fault(f"{PAUSE} worker past its leases", victim.name)
        victim.send(signal.SIGSTOP)
        span = self.plan.lease * self.random.uniform(1.3, 2.5)
        # By a timer: a lock that the stopped process holds may keep this very thread waiting.
        timer = threading.Timer(span, self.scene.resume, (victim, end))
        timer.start()
        self._paused.append(timer)
        return True

    def _crash(self) -> bool:
        crash(self.scene, draw_point(self.random))
        return True


def _wait_until_busy(worker: Member) -> None:
    """Losing an idle worker tests nothing; but the wait is bounded: there may be no job."""
    until = time.monotonic() + IN_HAND
    while not worker.busy and time.monotonic() < until:
        time.sleep(0.001)


def draw_point(random: random.Random) -> CrashPoint:
    """A random point in writing the log, or in copying it back."""
    file, operation, most = random.choice(
        (
            ("wal", "write", 60),
            ("wal", "tear", 60),
            ("wal", "sync", 4),
            ("main", "write", 40),
            ("main", "tear", 40),
            ("main", "sync", 3),
        )
    )
    return CrashPoint(file, operation, random.randint(1, most))


def crash(scene: Scene, point: CrashPoint) -> Member:
    """Let a process die at a point, and check that it leaves nothing locked."""
    crasher = scene.start("crasher", crash=str(point))
    crasher.wait()
    scene.probe(f"{crasher.name}, killed at {point}")
    return crasher


def expect_end(scene: Scene, children: list[Child], patience: float = STOP_PATIENCE) -> None:
    """Complain if workers of a killed supervisor do not end by themselves."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if not any(child.alive for child in children):
            return
        time.sleep(0.02)
    for child in children:
        if child.alive:
            scene.complain(ORPHANED, child.name, f"still runs after {patience:g} s")
