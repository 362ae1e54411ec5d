"""Oban for Python: Oban's tables, jobs fetched and acknowledged in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool
from shared import About, Handle, Payload, Peer, echo, main, run

QUEUE = "bench"
CHUNK = 1000


class ObanPeer(Peer):
    about = About(
        name="Oban",
        packages=["oban", "psycopg", "uvloop"],
        delivery="at least once",
        fenced="no",
        settings="queue limit 200, 10 connections, max_attempts 3, uvloop",
        bulk="enqueue_many, 1,000 a call",
    )
    limit = 200
    connections = 10

    async def open(self) -> None:
        self.pool = await self.make_pool()
        if not await self.fetch_value("SELECT to_regclass('oban_jobs') IS NOT NULL"):
            await install(self.pool)
        self.oban = Oban(pool=self.pool)
        await self.oban.start()
        self.run_job = make_worker(echo(0))

    async def make_pool(self) -> AsyncConnectionPool:
        return await Oban.create_pool(self.url, min_size=1, max_size=self.connections)

    async def close(self) -> None:
        await self.oban.stop()
        await self.pool.close()

    async def enqueue(self, payload: Payload) -> None:
        await self.oban.enqueue(self.run_job.new(payload))

    async def enqueue_many(self, payloads: Sequence[Payload]) -> None:
        for start in range(0, len(payloads), CHUNK):
            chunk = payloads[start : start + CHUNK]
            await self.oban.enqueue_many(self.run_job.new(payload) for payload in chunk)

    async def left(self) -> int:
        states = "('available', 'executing', 'retryable', 'scheduled')"
        return int(
            await self.fetch_value(f"SELECT count(*) FROM oban_jobs WHERE state IN {states}")
        )

    async def fetch_value(self, query: str) -> Any:
        async with self.pool.connection() as connection:
            [(answer,)] = await (await connection.execute(query)).fetchall()
            return answer

    def work(self, handle: Handle) -> None:
        logging.getLogger("oban").setLevel(logging.ERROR)
        make_worker(handle)
        run(self.worker())

    async def worker(self) -> None:
        pool = await self.make_pool()
        async with Oban(pool=pool, queues={QUEUE: self.limit}):
            await asyncio.Event().wait()


def make_worker(handle: Handle) -> Any:
    @worker(queue=QUEUE, max_attempts=3)
    class RunJob:
        async def process(self, job: Any) -> None:
            handle(job.args)

    return RunJob


if __name__ == "__main__":
    main(ObanPeer())
