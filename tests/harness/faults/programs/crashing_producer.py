"""A producer that kills itself at a crash point: `python -m
tests.harness.faults.programs.crashing_producer OPTIONS`."""

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
"""After so many bulks, the crash point counts as unreachable."""

KILL, STOP = "kill at", f"{PAUSE} at"


def main() -> None:
    """Enqueue in bulk, with checkpoints in between, until the crash point is reached."""
    options = parse_command_line()
    point = CrashPoint.parse(options.crash)
    # `outlives_parent` is the control: a process that is stopped, not killed, keeps its locks.
    fault, number = (STOP, signal.SIGSTOP) if options.outlives_parent else (KILL, signal.SIGKILL)

    def crash() -> None:
        act = f"{fault} {point.file} {point.operation}"
        program.history.write(
            Step(
                type=StepType.FAULT,
                phase=Phase.INVOKE,
                id=options.name,
                act=act,
                note=str(point),
            )
        )
        signal_self(number)

    trigger = CrashTrigger(point, crash)
    trigger.armed = options.count_from_open
    files = WatchedFiles(trigger)
    program = Program(options)
    program.open()
    trigger.armed = True
    _produce(program)
    program.close()
    files.unregister()


def _produce(program: Program) -> None:
    name = program.options.name
    random_source = random.Random(f"{program.options.seed} {name}")
    checkpointer = apsw.Connection(program.queue.store.info().location)
    for number in range(MAX_BULKS):
        program.queue.enqueue_many(
            random_job(random_source, f"{name}-{number}-{n}") for n in range(5)
        )
        checkpointer.execute("PRAGMA wal_checkpoint").fetchall()
    checkpointer.close()


if __name__ == "__main__":
    main()
