"""A process that claims in a transaction: `python -m tests.harness.faults.transactional`."""

from __future__ import annotations

from typing import Any

import psycopg

from ackline.job import Record
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.postgres.address import read_address
from ackline.stores.registry import store_from_url
from tests.harness.faults.assignment import QUEUE, Post, from_command_line
from tests.harness.faults.history import Phase, Step, What


def main() -> None:
    """Begin one job, and hold the transaction open until told to stop, or killed."""
    post = Post(from_command_line())
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


def _begun(post: Post, job: Record) -> Step:
    return Step(
        what=What.DELIVERY,
        phase=Phase.INVOKE,
        id=job.id,
        token=job.token,
        attempt=job.attempts,
        worker=post.assignment.name,
    )


if __name__ == "__main__":
    main()
