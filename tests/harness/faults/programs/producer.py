"""A producer process: `python -m tests.harness.faults.programs.producer ASSIGNMENT`."""

from __future__ import annotations

import contextlib
import itertools
import random

from ackline.core.errors import StoreError
from tests.harness.faults.programs.options import Program, parse_command_line
from tests.harness.faults.workload import random_job

BULK = 20


def main() -> None:
    """Enqueue, one by one and in bulk, until told to stop or all are made."""
    post = Program(parse_command_line())
    post.open()
    produce(post)
    post.close()


def produce(post: Program) -> None:
    """Every job has an id of its own, so that it can be accounted for."""
    assignment = post.assignment
    chance = random.Random(f"{assignment.seed} {assignment.name}")
    numbers = itertools.count()
    made = 0
    while not post.stopping.wait(chance.uniform(0.0, assignment.max_pause)):
        size = BULK if chance.random() < 0.2 else 1
        ids = [f"{assignment.name}-{next(numbers)}" for _ in range(size)]
        jobs = [random_job(chance, id) for id in ids]
        # On an error the outcome is unknown, and noted so. A real producer would send again.
        with contextlib.suppress(StoreError):
            if size > 1:
                post.queue.enqueue_many(jobs)
            else:
                post.queue.enqueue(jobs[0].payload, **jobs[0].options)
        made += size
        if assignment.jobs and made >= assignment.jobs:
            return


if __name__ == "__main__":
    main()
