"""PgQueuer: one table, LISTEN/NOTIFY by a trigger, acknowledgements collected into batches."""

from __future__ import annotations

import json
from collections.abc import Sequence

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.models import Job
from shared import About, Handle, Payload, Peer, main, run

ENTRYPOINT = "run"
CHUNK = 1000
CALLS_AT_ONCE = 10


class PgQueuerPeer(Peer):
    about = About(
        name="PgQueuer",
        packages=["pgqueuer", "asyncpg", "uvloop"],
        delivery="at least once",
        fenced="no",
        settings="durable tables, batches of 200, asyncpg, uvloop",
        bulk="enqueue with lists, 1,000 a call",
    )
    batch = 200

    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.url, min_size=1, max_size=CALLS_AT_ONCE)
        self.queries = Queries(AsyncpgPoolDriver(self.pool))
        if not await self.queries.schema_is_installed():
            await self.queries.install()

    async def close(self) -> None:
        await self.pool.close()

    async def enqueue(self, payload: Payload) -> None:
        await self.queries.enqueue(ENTRYPOINT, json.dumps(payload).encode())

    async def enqueue_many(self, payloads: Sequence[Payload]) -> None:
        for start in range(0, len(payloads), CHUNK):
            bodies = [json.dumps(payload).encode() for payload in payloads[start : start + CHUNK]]
            await self.queries.enqueue([ENTRYPOINT] * len(bodies), bodies, [0] * len(bodies))

    async def left(self) -> int:
        return sum(entry.count for entry in await self.queries.queue_size())

    def work(self, handle: Handle) -> None:
        run(self.worker(handle))

    async def worker(self, handle: Handle) -> None:
        queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(self.url)))

        @queuer.entrypoint(ENTRYPOINT)
        async def run_job(job: Job) -> None:
            handle(json.loads(job.payload or b"{}"))

        await queuer.run(batch_size=self.batch)


if __name__ == "__main__":
    main(PgQueuerPeer())
