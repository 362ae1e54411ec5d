"""Jobs and keys are read from a store a few at a time, however many are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.job import Draft, QueueKey, Record
from ackline.stores import contract
from ackline.stores.contract import KeyValue, KeyWrite, find_each_job, read_each_key
from ackline.stores.memory import MemoryStore

QUEUE = QueueKey("default", "email")
MANY = 2 * contract.LOOKUP_BATCH + 1


class RecordingStore(MemoryStore):
    """Records how many were requested."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def get(
        self, queue: QueueKey, ids: Sequence[str], max_bytes: int | None = None
    ) -> list[Record | None]:
        self.asked.append(len(ids))
        return super().get(queue, ids, max_bytes)

    def read_keys(
        self,
        tenant: str,
        prefix: tuple[str, ...],
        limit: int,
        after: tuple[str, ...] | None = None,
        max_bytes: int | None = None,
    ) -> list[KeyValue]:
        self.asked.append(limit)
        return super().read_keys(tenant, prefix, limit, after, max_bytes)


def test_jobs_are_looked_up_some_at_a_time() -> None:
    store, ids = RecordingStore(), [str(n) for n in range(MANY)]
    store.enqueue(QUEUE, [Draft(id, "k", b"1") for id in ids])

    assert [job and job.id for job in find_each_job(store, QUEUE, ids)] == ids
    assert store.asked == [contract.LOOKUP_BATCH, contract.LOOKUP_BATCH, 1]


def test_keys_are_read_some_at_a_time() -> None:
    store, keys = RecordingStore(), [("k", f"{n:05}") for n in range(MANY)]
    store.write_keys("default", [KeyWrite(key=key, value=b"") for key in keys])

    assert [entry.key for entry in read_each_key(store, "default", (), 10**9)] == keys
    assert store.asked == [contract.LOOKUP_BATCH] * 3
