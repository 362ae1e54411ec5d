"""Short names for what these tests do most."""

from typing import Any

from ackline.core.config import DEFAULTS
from ackline.core.job import Draft, QueueKey, Record
from ackline.core.lifecycle import Verdict, complete
from ackline.stores.contract import ClaimRequest, Store


def put(store: Store, queue: QueueKey, *ids: str, **more: Any) -> None:
    receipts = store.enqueue(queue, [Draft(id, "mail", b"{}", **more) for id in ids])
    assert all(receipt.accepted for receipt in receipts)


def take(store: Store, queue: QueueKey, limit: int = 100) -> list[Record]:
    return store.claim(queue, ClaimRequest(worker="w", limit=limit, lease=30.0)).jobs


def ids(jobs: list[Record]) -> list[str]:
    return [job.id for job in jobs]


def finish(store: Store, queue: QueueKey, *jobs: Record) -> list[Verdict]:
    return store.apply(queue, [complete(job, b"1", DEFAULTS) for job in jobs])
