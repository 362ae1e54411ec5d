"""A worker process: `python -m tests.harness.faults.programs.worker OPTIONS`."""

from __future__ import annotations

from ackline.worker import Worker
from tests.harness.faults.programs.options import Program, parse_command_line
from tests.harness.faults.workload import add_handlers


def main() -> None:
    """Work until stopped."""
    program = Program(parse_command_line())
    program.open()
    add_handlers(program.queue, program.history)
    worker = Worker(
        program.queue,
        concurrency=program.options.concurrency,
        grace=program.options.grace,
        id=program.options.name,
        maintenance=program.options.maintenance,
    )
    worker.start()
    program.wait_until_stopped()
    worker.stop()
    program.close()


if __name__ == "__main__":
    main()
