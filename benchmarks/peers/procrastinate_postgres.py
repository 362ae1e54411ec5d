"""Procrastinate: functions in the database, a row each job, LISTEN/NOTIFY."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from procrastinate import App, PsycopgConnector
from procrastinate.tasks import Task
from shared import About, Handle, Payload, Peer, echo, main, run

CHUNK = 1000
TASK = "run"


class Procrastinate(Peer):
    about = About(
        name="Procrastinate",
        packages=["procrastinate", "psycopg", "uvloop"],
        delivery="at least once, by a periodic task of one's own that retries stalled jobs",
        fenced="no",
        settings="concurrency 30, 10 connections, retry 3, successful jobs are deleted, uvloop",
        bulk="batch_defer, 1,000 a call",
    )
    concurrency = 30
    connections = 10

    async def open(self) -> None:
        self.task = self.make_task(echo(0))
        await self.app.open_async()
        if not await self.app.check_connection_async():
            await self.app.schema_manager.apply_schema_async()

    def make_task(self, handle: Handle) -> Task:
        self.app = App(connector=PsycopgConnector(conninfo=self.url, max_size=self.connections))

        @self.app.task(name=TASK, retry=3)
        async def run_job(payload: Payload) -> None:
            handle(payload)

        return run_job

    async def close(self) -> None:
        await self.app.close_async()

    async def enqueue(self, payload: Payload) -> None:
        await self.task.defer_async(payload=payload)

    async def enqueue_many(self, payloads: Sequence[Payload]) -> None:
        for start in range(0, len(payloads), CHUNK):
            chunk = payloads[start : start + CHUNK]
            await self.task.batch_defer_async(*({"payload": payload} for payload in chunk))

    async def left(self) -> int:
        query = "SELECT count(*) AS n FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        found = await self.app.connector.execute_query_one_async(query)
        return int(found["n"])

    def work(self, handle: Handle) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        self.make_task(handle)
        run(self.worker())

    async def worker(self) -> None:
        async with self.app.open_async():
            await self.app.run_worker_async(concurrency=self.concurrency, delete_jobs="successful")


if __name__ == "__main__":
    main(Procrastinate())
