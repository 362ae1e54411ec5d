"""The processes that the harness starts, stops and kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from tests.harness.faults.checks.history import (
    Phase,
    Step,
    StepType,
    first_step,
    is_alive,
    path_of,
    read_one,
)
from tests.harness.faults.programs.options import ProgramOptions

TIMEOUT = 30.0
"""Timeout for steps that normally take less than a second."""


_WORK = {
    "producer": (StepType.ENQUEUE, Phase.OK),
    "worker": (StepType.DELIVERY, Phase.INVOKE),
}
"""The step in the history of a process that shows that it is working, by role."""


class ConditionTimeout(AssertionError):
    """A condition did not hold in time."""


def wait_for(goal: str, condition: Callable[[], bool], timeout: float = TIMEOUT) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise ConditionTimeout(f"waited {timeout:g} s for {goal}")
        time.sleep(0.01)


class ManagedProcess:
    """One process of the group."""

    def __init__(self, role: str, options: ProgramOptions) -> None:
        self.role = role
        self.options = options
        self.name = options.name
        self.stopped = False
        # It stops when its standard input is closed, which happens when this process exits. It has
        # its own process group, because the system continues and ends orphaned, stopped groups.
        self._process = subprocess.Popen(
            options.command(role),
            env=options.environment(),
            stdin=subprocess.PIPE,
            process_group=0,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """Its exit status; -9 is killed, None is not ended yet."""
        return self._process.poll()

    @property
    def folder(self) -> Path:
        return Path(self.options.folder)

    def steps(self) -> list[Step]:
        """The steps in its history."""
        return read_one(path_of(self.folder, self.name))

    def has(self, what: StepType, phase: Phase = Phase.OK, act: str = "") -> bool:
        """Whether its history has such a step."""
        return any(
            step.type is what and step.phase is phase and act in ("", step.act)
            for step in self.steps()
        )

    @property
    def ready(self) -> bool:
        """Whether it has started and is running."""
        return self.alive and path_of(self.folder, self.name).exists()

    def has_worked(self, since: float = 0.0) -> bool:
        """Whether it has done any work of its role."""
        what, phase = _WORK[self.role]
        return any(
            step.type is what and step.phase is phase and step.at > since for step in self.steps()
        )

    @property
    def busy(self) -> bool:
        """Whether a worker is running a job."""
        deliveries = [step for step in self.steps() if step.type is StepType.DELIVERY]
        started = sum(step.phase is Phase.INVOKE for step in deliveries)
        return 2 * started > len(deliveries)

    def wait_until_ready(self) -> None:
        wait_for(f"{self.name} to start", lambda: self.ready or not self.alive)

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it is running."""
        if self.alive:
            self._process.send_signal(number)
            self.stopped = {signal.SIGSTOP: True, signal.SIGCONT: False}.get(number, self.stopped)

    def kill(self) -> None:
        """SIGKILL, and wait until it has exited."""
        self._process.kill()
        self.wait()

    def stop(self, timeout: float = TIMEOUT) -> None:
        """Stop it gracefully, and wait until it has exited."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        self.wait(timeout)

    def wait(self, timeout: float = TIMEOUT) -> None:
        """Wait until it has exited."""
        self._process.wait(timeout)
        if self._process.stdin is not None:
            self._process.stdin.close()


class ProcessGroup:
    """All processes of a campaign; leaving the context ends them."""

    def __init__(self) -> None:
        self.processes: list[ManagedProcess] = []

    def start(self, role: str, options: ProgramOptions) -> ManagedProcess:
        """Start one more process."""
        process = ManagedProcess(role, options)
        self.processes.append(process)
        return process

    def running(self, role: str) -> list[ManagedProcess]:
        """The processes of a role that are running and not suspended."""
        return [
            process
            for process in self.processes
            if process.role == role and process.alive and not process.stopped
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        supervisors = self.running("supervisor")
        children = [child for process in supervisors for child in children_of(process)]
        for process in supervisors:
            # Stopped first, as a killed one might leave a child that is not known yet.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.stop(timeout=10.0)
        for process in self.processes:
            process.kill()
        for child in children:
            child.kill()


class SupervisedWorker:
    """A worker that a supervisor of the group has started."""

    def __init__(self, supervisor: ManagedProcess, started: Step) -> None:
        self.name = started.worker
        self._folder = supervisor.folder
        self._pid = int(started.note)

    @property
    def alive(self) -> bool:
        return is_alive(self._folder, self.name)

    def kill(self) -> None:
        """SIGKILL; while its history is locked, its process id cannot belong to another process."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def children_of(supervisor: ManagedProcess) -> Iterator[SupervisedWorker]:
    """The running workers of a supervisor."""
    if supervisor.role != "supervisor":
        return
    for path in sorted(supervisor.folder.glob("*.jsonl")):
        if not is_alive(supervisor.folder, path.stem):
            continue
        step = first_step(path)
        if step is not None and step.id == supervisor.name:
            yield SupervisedWorker(supervisor, step)
