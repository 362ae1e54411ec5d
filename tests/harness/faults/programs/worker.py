"""A worker process: `python -m tests.harness.faults.programs.worker ASSIGNMENT`."""

from __future__ import annotations

from ackline.worker import Worker
from tests.harness.faults.programs.options import Program, parse_command_line
from tests.harness.faults.workload import add_handlers


def main() -> None:
    """Work until told to stop."""
    post = Program(parse_command_line())
    post.open()
    add_handlers(post.queue, post.history)
    worker = Worker(
        post.queue,
        concurrency=post.assignment.concurrency,
        grace=post.assignment.grace,
        id=post.assignment.name,
        maintenance=post.assignment.maintenance,
    )
    worker.start()
    post.wait_until_stopped()
    worker.stop()
    post.close()


if __name__ == "__main__":
    main()
