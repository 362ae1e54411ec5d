"""At its start a worker waits out what passes, such as a failover."""

from __future__ import annotations

import threading
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
from ackline.stores.memory import MemoryStore
from ackline.worker import Worker
from tests.waiting import TIMEOUT


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
