"""A producer process: `python -m tests.harness.faults.programs.producer OPTIONS`."""

from __future__ import annotations

import contextlib
import itertools
import random

from ackline.core.errors import StoreError
from tests.harness.faults.programs.options import Program, parse_command_line
from tests.harness.faults.workload import random_job

BULK = 20


def main() -> None:
    """Enqueue, one by one and in bulk, until stopped or finished."""
    program = Program(parse_command_line())
    program.open()
    produce(program)
    program.close()


def produce(program: Program) -> None:
    """Every job has an id of its own, so that it can be accounted for."""
    options = program.options
    chance = random.Random(f"{options.seed} {options.name}")
    numbers = itertools.count()
    made = 0
    while not program.stopping.wait(chance.uniform(0.0, options.max_pause)):
        size = BULK if chance.random() < 0.2 else 1
        ids = [f"{options.name}-{next(numbers)}" for _ in range(size)]
        jobs = [random_job(chance, id) for id in ids]
        # On an error the outcome is unknown, and recorded as such. A real producer would retry.
        with contextlib.suppress(StoreError):
            if size > 1:
                program.queue.enqueue_many(jobs)
            else:
                program.queue.enqueue(jobs[0].payload, **jobs[0].options)
        made += size
        if options.jobs and made >= options.jobs:
            return


if __name__ == "__main__":
    main()
