"""taskiq with its broker on Redis streams, the one that acknowledges."""

from __future__ import annotations

import logging
from typing import Any

from redis.asyncio import Redis
from shared import About, Handle, Payload, Peer, echo, main
from taskiq import AsyncTaskiqDecoratedTask
from taskiq.cli.worker.args import WorkerArgs
from taskiq.cli.worker.run import start_listen
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

STREAM = GROUP = "taskiq"
TIMEOUT = 60
POLL = 0.001


class Taskiq(Peer):
    about = About(
        name="taskiq",
        packages=["taskiq", "taskiq-redis", "redis", "uvloop"],
        delivery="at least once",
        fenced="no",
        settings="RedisStreamBroker, ack type when_saved, max_async_tasks 100, no_parse, uvloop; "
        "a caller polls for its result every ms",
    )
    concurrency = 100
    prefetch = 0
    fetch = 100

    async def open(self) -> None:
        self.task = self.make_task(echo(0))
        self.redis = Redis.from_url(self.url)
        await self.task.broker.startup()

    async def close(self) -> None:
        await self.task.broker.shutdown()
        await self.redis.aclose()

    async def enqueue(self, payload: Payload) -> Any:
        return await self.task.kiq(payload)

    async def request(self, payload: Payload) -> Any:
        job = await self.enqueue(payload)
        result = await job.wait_result(check_interval=POLL, timeout=TIMEOUT)
        return result.return_value

    async def left(self) -> int:
        [group] = await self.redis.xinfo_groups(STREAM)
        return group["pending"] + (group["lag"] or 0)

    def work(self, handle: Handle) -> None:
        logging.getLogger("taskiq").setLevel(logging.ERROR)
        start_listen(
            WorkerArgs(
                broker=self.make_task(handle).broker,
                modules=[],
                configure_logging=False,
                no_parse=True,
                max_async_tasks=self.concurrency,
                max_prefetch=self.prefetch,
            )
        )

    def make_task(self, handle: Handle) -> AsyncTaskiqDecoratedTask:
        broker = RedisStreamBroker(self.url, xread_count=self.fetch, unacknowledged_lock_timeout=30)
        if self.results:
            broker = broker.with_result_backend(RedisAsyncResultBackend(self.url))

        @broker.task(task_name="run")
        async def run(payload: Payload) -> Any:
            return handle(payload)

        return run


if __name__ == "__main__":
    main(Taskiq())
