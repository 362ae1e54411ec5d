"""A producer that dies at a crash point: `python -m tests.harness.faults.crasher ASSIGNMENT`."""

from __future__ import annotations

import random
import signal

import apsw

from tests.harness.faults.assignment import Post, from_command_line
from tests.harness.faults.case import PAUSE
from tests.harness.faults.crash_points import CrashPoint, Trap, WatchedFiles, send_self
from tests.harness.faults.history import Phase, Step, What
from tests.harness.faults.work import random_job

ROUNDS = 200
"""Bulks after which the crash point counts as out of reach."""

KILL, STOP = "kill at", f"{PAUSE} at"


def main() -> None:
    """Enqueue in bulk and copy the log back in between, until the crash point is met."""
    assignment = from_command_line()
    point = CrashPoint.parse(assignment.crash)
    # `stays` is the control: stopped instead of killed, the process keeps its locks.
    fault, number = (STOP, signal.SIGSTOP) if assignment.stays else (KILL, signal.SIGKILL)

    def die() -> None:
        act = f"{fault} {point.file} {point.operation}"
        post.history.write(
            Step(what=What.FAULT, phase=Phase.INVOKE, id=assignment.name, act=act, note=str(point))
        )
        send_self(number)

    trap = Trap(point, die)
    trap.armed = assignment.early
    files = WatchedFiles(trap)
    post = Post(assignment)
    post.open()
    trap.armed = True
    _produce(post)
    post.close()
    files.unregister()


def _produce(post: Post) -> None:
    name = post.assignment.name
    chance = random.Random(f"{post.assignment.seed} {name}")
    copier = apsw.Connection(post.queue.store.info().location)
    for number in range(ROUNDS):
        post.queue.enqueue_many(random_job(chance, f"{name}-{number}-{n}") for n in range(5))
        copier.execute("PRAGMA wal_checkpoint").fetchall()
    copier.close()


if __name__ == "__main__":
    main()
