"""At its start a worker waits out what passes, such as a failover."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from ackline.queues import Queues
from ackline.stores.contract import QueueInfo
from ackline.stores.memory import MemoryStore
from ackline.worker import Worker
from tests.waiting import TIMEOUT, until


class StoreThatFailsFirst(MemoryStore):
    """Refuses the first signs of life."""

    def __init__(self, troubles: list[StoreError]) -> None:
        super().__init__()
        self.troubles = troubles

    def heartbeat(self, queue: Any, sent: Any, extensions: Any) -> Any:
        if self.troubles:
            raise self.troubles.pop()
        return super().heartbeat(queue, sent, extensions)


@pytest.mark.parametrize("sort", [StoreReadOnly, StoreFull, StoreUnavailable])
def test_transient_errors_are_retried(sort, caplog):
    queue = Queues(StoreThatFailsFirst([sort("not now"), sort("not yet")]))["work"]
    queue.handler(lambda job: "done")
    worker = Worker(queue)
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        assert queue.enqueue_and_wait(1, timeout=TIMEOUT) == "done"
    finally:
        worker.request_stop()
        running.join(TIMEOUT)
    assert "; not started yet" in caplog.text
    assert not running.is_alive()


def test_control_other_errors_are_raised_at_once():
    queue = Queues(StoreThatFailsFirst([StoreMismatch("the data of another program")]))["work"]
    queue.handler(lambda job: "done")
    with pytest.raises(StoreMismatch):
        Worker(queue).run()


class UnreachableFirst(MemoryStore):
    """Cannot be reached three times."""

    failures = 3

    def describe(self, *arguments: Any, **options: Any) -> list[QueueInfo]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("connection refused")
        return super().describe(*arguments, **options)


def test_resources_are_opened_once_the_store_is_reached() -> None:
    store = UnreachableFirst()
    queue = Queues(store)["work"]
    queue.handler(lambda job: "done")
    opened: list[int] = []

    def lifespan() -> Iterator[None]:
        opened.append(store.failures)
        yield

    worker = Worker(queue, lifespan=lifespan)
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        until(lambda: worker.stats().ready)
    finally:
        worker.request_stop()
        running.join(TIMEOUT)
    assert opened == [0]
