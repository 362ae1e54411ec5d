"""RQ: a list of ids, a hash for each job, registries of what was started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis
from rq import Queue, Retry, SimpleWorker, Worker
from shared import About, Handle, Payload, Peer, echo, main

QUEUE = "bench"
FUNCTION = "__main__.run"
TIMEOUT = 60
CHUNK = 1000

handle: Handle = echo(0)


def run(payload: Payload) -> Any:
    """What RQ finds by its name."""
    return handle(payload)


class Rq(Peer):
    about = About(
        name="RQ",
        packages=["rq", "redis"],
        delivery="at least once",
        fenced="no",
        settings="SimpleWorker (no fork for each job), Retry(max=3), result_ttl=0",
        bulk="enqueue_many",
    )
    worker = "simple"

    def open(self) -> None:
        self.queue = Queue(QUEUE, connection=Redis.from_url(self.url))
        self.result_ttl = TIMEOUT if self.results else 0

    def enqueue(self, payload: Payload) -> Any:
        return self.queue.enqueue(FUNCTION, payload, retry=Retry(max=3), result_ttl=self.result_ttl)

    def enqueue_many(self, payloads: Sequence[Payload]) -> None:
        for start in range(0, len(payloads), CHUNK):
            self.queue.enqueue_many(
                Queue.prepare_data(FUNCTION, (payload,), retry=Retry(max=3), result_ttl=0)
                for payload in payloads[start : start + CHUNK]
            )

    def request(self, payload: Payload) -> Any:
        return self.enqueue(payload).latest_result(timeout=TIMEOUT).return_value

    def left(self) -> int:
        queue = self.queue
        between = queue.connection.llen(queue.intermediate_queue_key)
        return queue.count + between + queue.started_job_registry.count

    def work(self, handle_job: Handle) -> None:
        global handle  # noqa: PLW0603
        handle = handle_job
        worker = {"simple": SimpleWorker, "forking": Worker}[self.worker]
        worker([QUEUE], connection=Redis.from_url(self.url)).work(logging_level="ERROR")


if __name__ == "__main__":
    main(Rq())
