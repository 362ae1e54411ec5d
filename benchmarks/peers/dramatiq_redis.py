"""Dramatiq with its Redis broker."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from shared import About, Handle, Payload, Peer, echo, main

TIMEOUT = 60_000


class Dramatiq(Peer):
    about = About(
        name="Dramatiq",
        packages=["dramatiq", "redis"],
        delivery="at least once",
        fenced="by the worker's id",
        settings="8 threads, dramatiq_queue_prefetch 100, worker_timeout 10 ms, default middleware",
    )
    threads = 8
    prefetch = 100
    poll = 10

    def open(self) -> None:
        self.actor = self.make_actor(echo(0))
        self.redis = self.actor.broker.client

    def enqueue(self, payload: Payload) -> Any:
        return self.actor.send(payload)

    def request(self, payload: Payload) -> Any:
        return self.enqueue(payload).get_result(block=True, timeout=TIMEOUT)

    def left(self) -> int:
        return self.redis.hlen("dramatiq:default.msgs")

    def work(self, handle: Handle) -> None:
        # Read when the module is imported, as its command would find it.
        os.environ["dramatiq_queue_prefetch"] = str(self.prefetch)  # noqa: SIM112
        from dramatiq import Worker

        logging.getLogger("dramatiq").setLevel(logging.ERROR)
        broker = self.make_actor(handle).broker
        Worker(broker, worker_threads=self.threads, worker_timeout=self.poll).start()
        threading.Event().wait()

    def make_actor(self, handle: Handle) -> Any:
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker
        from dramatiq.results import Results
        from dramatiq.results.backends import RedisBackend

        broker = RedisBroker(url=self.url)
        if self.results:
            broker.add_middleware(Results(backend=RedisBackend(url=self.url)))
        dramatiq.set_broker(broker)
        options = {"store_results": True} if self.results else {}

        @dramatiq.actor(actor_name="run", broker=broker, **options)
        def run(payload: Payload) -> Any:
            return handle(payload)

        return run


if __name__ == "__main__":
    main(Dramatiq())
