"""An application's own table, written in the same transactions as jobs."""

import contextlib
from typing import Any

import psycopg
from tests.harness.servers.postgres import PostgresServer

from ackline import Queue
from ackline.core.job import State


class Connection(psycopg.Connection[Any]):
    """Closes at the end of its block even if the commit fails; the driver would leave it open."""

    def __exit__(self, *error: Any) -> None:
        with contextlib.closing(self):
            super().__exit__(*error)


class Shop:
    """Orders, and a queue of jobs that belong to them."""

    def __init__(self, server: PostgresServer, schema: str, queue: Queue[Any, Any]) -> None:
        self.queue = queue
        self.url = server.socket_url
        self.table = f'"{schema}_shop".orders'
        with self.connect(autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}_shop"')
            connection.execute(f"CREATE TABLE {self.table} (id text PRIMARY KEY, paid boolean)")

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return Connection.connect(self.url, **options)

    async def connect_async(self, **options: Any) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self.url, **options)

    def insert(self, id: str) -> str:
        return f"INSERT INTO {self.table} VALUES ('{id}', false)"

    def pay(self, id: str) -> str:
        return f"UPDATE {self.table} SET paid = true WHERE id = '{id}'"

    def orders(self) -> set[str]:
        with self.connect() as connection:
            rows = connection.execute(f"SELECT id FROM {self.table}").fetchall()
        return {id for (id,) in rows}

    def paid(self) -> set[str]:
        with self.connect() as connection:
            rows = connection.execute(f"SELECT id FROM {self.table} WHERE paid").fetchall()
        return {id for (id,) in rows}

    def jobs(self) -> set[str]:
        return {job.id for job in self.queue.jobs().jobs}

    def state(self, id: str) -> State | None:
        [record] = self.queue.store.get(self.queue.key, [id])
        return None if record is None else record.state
