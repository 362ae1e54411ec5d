"""Huey on Redis. It takes a task out of its list before it runs: a crash loses it."""

from __future__ import annotations

import logging
from typing import Any

from huey import RedisHuey
from shared import About, Handle, Payload, Peer, echo, main

TIMEOUT = 60


class Huey(Peer):
    about = About(
        name="Huey",
        packages=["huey", "redis"],
        delivery="at most once",
        fenced="no acknowledgement",
        settings="RedisHuey, blocking pop, one thread; there is no reliable mode",
    )
    threads = 1

    def open(self) -> None:
        self.huey, self.task = self.make_task(echo(0))

    def enqueue(self, payload: Payload) -> Any:
        return self.task(payload)

    def request(self, payload: Payload) -> Any:
        return self.enqueue(payload).get(blocking=True, timeout=TIMEOUT)

    def left(self) -> int:
        return self.huey.storage.queue_size()

    def work(self, handle: Handle) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        huey, _ = self.make_task(handle)
        huey.create_consumer(workers=self.threads, worker_type="thread", periodic=False).run()

    def make_task(self, handle: Handle) -> tuple[RedisHuey, Any]:
        huey = RedisHuey("bench", url=self.url, results=self.results, notify_result=self.results)

        @huey.task(retries=3, name="run")
        def run(payload: Payload) -> Any:
            return handle(payload)

        return huey, run


if __name__ == "__main__":
    main(Huey())
