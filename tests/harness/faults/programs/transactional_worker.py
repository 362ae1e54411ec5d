"""A process that claims in a transaction: `python -m
tests.harness.faults.programs.transactional_worker`."""

from __future__ import annotations

from typing import Any

import psycopg

from ackline.core.job import Record
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.postgres.io.address import read_address
from ackline.stores.registry import store_from_url
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.programs.options import QUEUE, Program, parse_command_line


def main() -> None:
    """Start one job, and keep the transaction open until stopped or killed."""
    program = Program(parse_command_line())
    program.open()
    # Without recording: calls in a transaction of the caller would bypass it.
    queues = Queues(store_from_url(program.options.store))
    queues.store.open()
    with psycopg.connect(read_address(program.options.store).conninfo) as connection:
        program.history.write(_started(program, _claim(queues[QUEUE], connection)))
        program.wait_until_stopped()
        connection.rollback()
    queues.close()
    program.close()


def _claim(queue: Queue[Any, Any], connection: psycopg.Connection[Any]) -> Record:
    [job] = queue.claim(1, connection=connection)
    return job.record


def _started(program: Program, job: Record) -> Step:
    return Step(
        type=StepType.DELIVERY,
        phase=Phase.INVOKE,
        id=job.id,
        token=job.token,
        attempt=job.attempts,
        worker=program.options.name,
    )


if __name__ == "__main__":
    main()
