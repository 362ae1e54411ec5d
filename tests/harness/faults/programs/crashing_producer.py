"""A producer that dies at a crash point: `python -m
tests.harness.faults.programs.crashing_producer ASSIGNMENT`."""

from __future__ import annotations

import random
import signal

import apsw

from tests.harness.faults.checks.evidence import PAUSE
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.crash_points import CrashPoint, CrashTrigger, WatchedFiles, signal_self
from tests.harness.faults.programs.options import Program, parse_command_line
from tests.harness.faults.workload import random_job

MAX_BULKS = 200
"""Bulks after which the crash point counts as out of reach."""

KILL, STOP = "kill at", f"{PAUSE} at"


def main() -> None:
    """Enqueue in bulk and copy the log back in between, until the crash point is met."""
    assignment = parse_command_line()
    point = CrashPoint.parse(assignment.crash)
    # `stays` is the control: stopped instead of killed, the process keeps its locks.
    fault, number = (STOP, signal.SIGSTOP) if assignment.outlives_parent else (KILL, signal.SIGKILL)

    def die() -> None:
        act = f"{fault} {point.file} {point.operation}"
        post.history.write(
            Step(
                type=StepType.FAULT,
                phase=Phase.INVOKE,
                id=assignment.name,
                act=act,
                note=str(point),
            )
        )
        signal_self(number)

    trap = CrashTrigger(point, die)
    trap.armed = assignment.count_from_open
    files = WatchedFiles(trap)
    post = Program(assignment)
    post.open()
    trap.armed = True
    _produce(post)
    post.close()
    files.unregister()


def _produce(post: Program) -> None:
    name = post.assignment.name
    chance = random.Random(f"{post.assignment.seed} {name}")
    copier = apsw.Connection(post.queue.store.info().location)
    for number in range(MAX_BULKS):
        post.queue.enqueue_many(random_job(chance, f"{name}-{number}-{n}") for n in range(5))
        copier.execute("PRAGMA wal_checkpoint").fetchall()
    copier.close()


if __name__ == "__main__":
    main()
