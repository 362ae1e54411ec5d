"""Ackline on Redis, or on any other of its stores, through its public face only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shared import About, Handle, Payload, Peer, main

import ackline
from ackline import aio

QUEUE = "bench"
TIMEOUT = 60.0


class Ackline(Peer):
    about = About(
        name="Ackline",
        packages=["ackline", "redis"],
        delivery="at least once",
        fenced="by the lease's token",
        settings="as it comes, concurrency 64; completed jobs are kept",
        bulk="enqueue_many",
    )
    concurrency = 64
    handlers = "sync"

    async def open(self) -> None:
        self.queues = await aio.open(self.url)
        self.queue = self.queues.sync[QUEUE]

    async def close(self) -> None:
        await self.queues.close()

    def enqueue(self, payload: Payload) -> None:
        self.queue.enqueue(payload)

    @property
    def shared_enqueue(self) -> Callable[[Payload], Any]:
        return self.queues[QUEUE].enqueue

    def enqueue_many(self, payloads: Sequence[Payload]) -> None:
        self.queue.enqueue_many(payloads)

    def request(self, payload: Payload) -> Any:
        return self.queue.enqueue_and_wait(payload, timeout=TIMEOUT)

    def left(self) -> int:
        counts = self.queue.counts()
        return sum(number for state, number in counts.items() if not state.terminal)

    def work(self, handle: Handle) -> None:
        def run(job: ackline.Job[Payload]) -> Any:
            return handle(job.payload)

        async def run_async(job: ackline.Job[Payload]) -> Any:
            return handle(job.payload)

        with ackline.open(self.url) as queues:
            queues[QUEUE].handler(run if self.handlers == "sync" else run_async)
            ackline.Worker(queues[QUEUE], concurrency=self.concurrency).run()


if __name__ == "__main__":
    main(Ackline())
