"""Celery with Redis as its broker, acknowledging late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery import Celery
from redis import Redis
from shared import CALLERS, About, Handle, Payload, Peer, echo, main

TIMEOUT = 60


class CeleryPeer(Peer):
    about = About(
        name="Celery",
        packages=["celery", "kombu", "redis"],
        delivery="at least once, but for a crash between pop and register",
        fenced="no",
        settings="task_acks_late, task_reject_on_worker_lost, pool solo, no gossip or mingle",
    )
    pool = "solo"
    concurrency = 1
    prefetch = 4

    def open(self) -> None:
        self.task = self.make_task(echo(0))
        self.redis = Redis.from_url(self.url)

    def enqueue(self, payload: Payload) -> Any:
        return self.task.apply_async((payload,))

    def enqueue_many(self, payloads: Sequence[Payload]) -> None:
        with self.task.app.producer_pool.acquire(block=True) as producer:
            for payload in payloads:
                self.task.apply_async((payload,), producer=producer)

    def request(self, payload: Payload) -> Any:
        return self.enqueue(payload).get(timeout=TIMEOUT)

    def left(self) -> int:
        return self.redis.llen("celery") + self.redis.hlen("unacked")

    def work(self, handle: Handle) -> None:
        app = self.make_task(handle).app
        pool = ["--pool", self.pool, "--concurrency", str(self.concurrency)]
        alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        app.worker_main(["--quiet", "worker", "--loglevel", "ERROR", *pool, *alone])

    def make_task(self, handle: Handle) -> Any:
        app = Celery("bench", broker=self.url, backend=self.url if self.results else None)
        app.conf.update(
            broker_connection_retry_on_startup=True,
            broker_pool_limit=CALLERS,
            task_acks_late=True,
            task_ignore_result=not self.results,
            task_reject_on_worker_lost=True,
            worker_prefetch_multiplier=self.prefetch,
            worker_redirect_stdouts=False,
        )

        @app.task(name="run")
        def run(payload: Payload) -> Any:
            return handle(payload)

        return run


if __name__ == "__main__":
    main(CeleryPeer())
