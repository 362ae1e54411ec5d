"""Processes that are killed: producers that commit or roll back, and workers.

python -m tests.stores.postgres.transactions.enqueue_processes produce URL SCHEMA TABLE FIRST LAST
SEED MODE python -m tests.stores.postgres.transactions.enqueue_processes work URL SCHEMA TABLE
"""

import random
import sys
import threading
from typing import Any

import psycopg

import ackline
from ackline import Job, Queue, Worker

QUEUE = "orders"


def open_queue(url: str, schema: str) -> Queue[Any, Any]:
    return ackline.open(f"{url}&schema={schema}")[QUEUE]


def produce(url: str, schema: str, table: str, first: int, last: int, seed: int, mode: str) -> None:
    """Half of the transactions are rolled back, by a call or by an error; each start is printed."""
    queue, rng = open_queue(url, schema), random.Random(seed)
    with psycopg.connect(url) as tx:
        for n in range(first, last):
            print(n, flush=True)
            id = f"o-{n}"
            steps = [
                lambda id=id: tx.execute(f"INSERT INTO {table}.committed VALUES (%s)", [id]),
                lambda id=id: queue.enqueue(
                    {"order": id}, id=id, connection=tx if mode == "joined" else None
                ),
            ]
            rng.shuffle(steps)
            for step in steps:
                step()
            tx.commit() if rng.random() < 0.5 else tx.rollback()


def work(url: str, schema: str, table: str) -> None:
    """Each job leaves a row with its completion, in one transaction; a second one would fail."""
    queue, mine = open_queue(url, schema), threading.local()

    def connection() -> psycopg.Connection[Any]:
        if getattr(mine, "connection", None) is None or mine.connection.closed:
            mine.connection = psycopg.connect(url, autocommit=True)
        kept: psycopg.Connection[Any] = mine.connection
        return kept

    @queue.handler(lease=2.0, max_attempts=100, backoff=[0.05])
    def run(job: Job[Any]) -> None:
        tx = connection()
        with tx.transaction():
            tx.execute(f"INSERT INTO {table}.ran VALUES (%s)", [job.id])
            job.complete(connection=tx)

    print("ready", flush=True)
    Worker(queue, concurrency=4).run()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["produce", url, schema, table, first, last, seed, mode]:
            produce(url, schema, table, int(first), int(last), int(seed), mode)
        case ["work", url, schema, table]:
            work(url, schema, table)
        case _:
            sys.exit(__doc__)
