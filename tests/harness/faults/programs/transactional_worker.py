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
    """Begin one job, and hold the transaction open until told to stop, or killed."""
    post = Program(parse_command_line())
    post.open()
    # The plain store: steps in a caller's transaction bypass the recording one anyway.
    plain = Queues(store_from_url(post.assignment.store))
    plain.store.open()
    with psycopg.connect(read_address(post.assignment.store).conninfo) as connection:
        post.history.write(_begun(post, _claim(plain[QUEUE], connection)))
        post.wait_until_stopped()
        connection.rollback()
    plain.close()
    post.close()


def _claim(queue: Queue[Any, Any], connection: psycopg.Connection[Any]) -> Record:
    [job] = queue.claim(1, connection=connection)
    return job.record


def _begun(post: Program, job: Record) -> Step:
    return Step(
        type=StepType.DELIVERY,
        phase=Phase.INVOKE,
        id=job.id,
        token=job.token,
        attempt=job.attempts,
        worker=post.assignment.name,
    )


if __name__ == "__main__":
    main()
