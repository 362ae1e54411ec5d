"""The control of the rule that no accepted job goes with its queue: look, then drop, loses some."""

from __future__ import annotations

import threading

from tests.harness.faults.wrapped_store import WrappedStore

from ackline.core.job import QueueKey
from ackline.stores.contract import Filter
from ackline.stores.memory import MemoryStore
from ackline.testing.conformance.rules.stores.drop import jobs_lost_to_drops


class LooksThenDrops(WrappedStore):
    """Looks whether the queue is empty, and deletes what is in it when a job has come."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self._came, self._gone = threading.Event(), threading.Event()

    def enqueue(self, queue, drafts, keys=()):
        self._gone.clear()
        receipts = super().enqueue(queue, drafts, keys)
        self._came.set()
        self._gone.wait(0.01)
        return receipts

    def drop(self, queue: QueueKey, by: str = "") -> bool:
        for info in self.inner.describe(queue.tenant, queue.name):
            if any(info.counts.values()):
                return False
        self._came.clear()
        self._came.wait(0.01)
        self.inner.purge(queue, Filter(), 1000, by)
        self._gone.set()
        return self.inner.drop(queue, by)


def test_a_drop_in_two_steps_loses_jobs():
    assert jobs_lost_to_drops(LooksThenDrops(), QueueKey("default", "work"))
