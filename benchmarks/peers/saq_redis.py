"""SAQ on Redis."""

from __future__ import annotations

import logging
from typing import Any

from saq import Queue, Worker
from shared import About, Handle, Payload, Peer, main, run

POLL = 0.001


class Saq(Peer):
    about = About(
        name="SAQ",
        packages=["saq", "redis", "uvloop"],
        delivery="at least once",
        fenced="no",
        settings="concurrency 50, retries 3, uvloop; a caller polls for its result every ms",
    )
    concurrency = 50
    operations = 100

    async def open(self) -> None:
        self.queue = Queue.from_url(self.url, max_concurrent_ops=self.operations)
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def enqueue(self, payload: Payload) -> None:
        await self.queue.enqueue("run", payload=payload, retries=3)

    async def request(self, payload: Payload) -> Any:
        # Not refresh(): it subscribes after it has looked, and misses what ends in between.
        return await self.queue.apply("run", payload=payload, retries=3, poll_interval=POLL)

    async def left(self) -> int:
        return await self.queue.count("incomplete") + await self.queue.count("active")

    def work(self, handle: Handle) -> None:
        logging.getLogger("saq").setLevel(logging.ERROR)
        run(self.worker(handle))

    async def worker(self, handle: Handle) -> None:
        async def run_job(_context: Any, *, payload: Payload) -> Any:
            return handle(payload)

        queue = Queue.from_url(self.url, max_concurrent_ops=self.operations)
        await queue.connect()
        await Worker(queue, [("run", run_job)], concurrency=self.concurrency).start()


if __name__ == "__main__":
    main(Saq())
