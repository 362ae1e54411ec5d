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
    """Enqueue jobs with unique ids."""
    options = program.options
    random_source = random.Random(f"{options.seed} {options.name}")
    numbers = itertools.count()
    enqueued = 0
    while not program.stopping.wait(random_source.uniform(0.0, options.max_pause)):
        size = BULK if random_source.random() < 0.2 else 1
        ids = [f"{options.name}-{next(numbers)}" for _ in range(size)]
        jobs = [random_job(random_source, id) for id in ids]
        # On an error the outcome is unknown, and recorded as such. A real producer would retry.
        with contextlib.suppress(StoreError):
            if size > 1:
                program.queue.enqueue_many(jobs)
            else:
                program.queue.enqueue(jobs[0].payload, **jobs[0].options)
        enqueued += size
        if options.jobs and enqueued >= options.jobs:
            return


if __name__ == "__main__":
    main()
