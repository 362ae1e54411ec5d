"""Jobs whose connections to the database break."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from ackline import App, Queue, Worker
from ackline.core.job import State
from ackline.django.connections import refresh_around_tasks
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.transactions.django_site import (
    database_of,
    forget_database,
    use_database,
)
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        with server.connect() as plain:
            use_database({**database_of(plain.info), "CONN_MAX_AGE": None})
        yield server
        forget_database()


@pytest.mark.parametrize("cared_for", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_restarted_database_costs_one_attempt_and_not_every_job(
    server: PostgresServer, cared_for: bool, is_async: bool
) -> None:
    app = App("memory://")
    if cared_for:
        refresh_around_tasks(app)
    opened: list[Any] = []
    task = add_task(app, is_async, opened)
    with app.open():
        worker = Worker(app, concurrency=1)
        worker.start()
        try:
            assert task.call(0) == 0
            server.restart()
            for n in range(1, 4):
                task.enqueue(n)
            counts = counts_when_finished(app.queues["default"], 4)
        finally:
            worker.stop()
            asyncio.run(sync_to_async(forget_database)())
            for each in opened:
                each.close()

    # Without care, the control: jobs fail on the connection that has broken.
    assert (counts[State.FAILED] == 0) is cared_for


def counts_when_finished(queue: Queue, jobs: int) -> Mapping[State, int]:
    def finished() -> int:
        counts = queue.counts()
        return counts[State.COMPLETED] + counts[State.FAILED]

    until(lambda: finished() == jobs)
    return queue.counts()


def add_task(app: App, is_async: bool, opened: list[Any]) -> Any:
    def select(n: int) -> int:
        with connection.cursor() as cursor:
            opened.append(connection.connection)
            cursor.execute("SELECT %s", [n])
            [(found,)] = cursor.fetchall()
        return int(found)

    if not is_async:
        return app.task(kind="select", max_attempts=2, backoff=0)(select)

    async def select_async(n: int) -> int:
        return await sync_to_async(select)(n)

    return app.task(kind="select", max_attempts=2, backoff=0)(select_async)
