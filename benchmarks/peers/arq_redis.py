"""arq: a sorted set of ids, and a key for each job while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from arq import Worker, create_pool, func
from arq.connections import RedisSettings
from shared import About, Handle, Payload, Peer, main, run

TIMEOUT = 60
POLL = 0.001


class Arq(Peer):
    about = About(
        name="arq",
        packages=["arq", "redis", "uvloop"],
        delivery="at least once",
        fenced="no",
        settings="max_jobs 100, poll_delay 10 ms, uvloop; a caller polls for its result every ms",
    )
    concurrency = 100
    poll = 0.01
    fetch = 0

    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def close(self) -> None:
        await self.pool.aclose()

    async def enqueue(self, payload: Payload) -> Any:
        return await self.pool.enqueue_job("run", payload)

    async def request(self, payload: Payload) -> Any:
        job = await self.enqueue(payload)
        return await job.result(timeout=TIMEOUT, poll_delay=POLL)

    async def left(self) -> int:
        return await self.pool.zcard(self.pool.default_queue_name)

    def work(self, handle: Handle) -> None:
        logging.getLogger("arq").setLevel(logging.ERROR)
        run(self.worker(handle))

    async def worker(self, handle: Handle) -> None:
        async def run_job(_context: Any, payload: Payload) -> Any:
            return handle(payload)

        worker = Worker(
            [func(run_job, name="run")],
            redis_settings=RedisSettings.from_dsn(self.url),
            max_jobs=self.concurrency,
            poll_delay=self.poll,
            queue_read_limit=self.fetch or None,
            keep_result=TIMEOUT if self.results else 0,
            log_results=False,
        )
        with contextlib.suppress(asyncio.CancelledError):
            await worker.async_run()


if __name__ == "__main__":
    main(Arq())
