"""Odd names and bytes come back as they went in, and never meet each other."""

from __future__ import annotations

import pytest

from ackline import lifecycle
from ackline.config import DEFAULTS
from ackline.job import Draft, QueueKey, State
from ackline.stores.base import ClaimRequest, Filter, KeyWrite
from ackline.stores.keys import decode_key, encode_key

NAMES = [
    "a:b",
    "a",
    "b:a",
    "nul\0",
    "\0",
    "nul\0more",
    "💌",
    "é",
    "x" * 512,
    "%",
    "'; --",
    "1",
    "01",
]


@pytest.mark.parametrize("many", [True, False])
def test_ids(store, many):
    queue = QueueKey("default", "names")
    new = [Draft(name, "kind", name.encode()) for name in NAMES]
    batches = [new] if many else [[draft] for draft in new]

    receipts = [receipt for batch in batches for receipt in store.enqueue(queue, batch)]
    again = [receipt for batch in batches for receipt in store.enqueue(queue, batch)]
    jobs = store.claim(queue, ClaimRequest(worker="w\0", limit=100, lease=9.0)).jobs
    verdicts = store.apply(queue, [lifecycle.complete(job, job.payload, DEFAULTS) for job in jobs])

    assert all(receipt.accepted for receipt in receipts)
    assert not any(receipt.accepted for receipt in again)
    assert [job.id for job in jobs] == NAMES
    assert all(verdict.applied for verdict in verdicts)
    assert [job.result for job in store.get(queue, NAMES)] == [name.encode() for name in NAMES]


def test_queues_tenants_and_kinds(store):
    keys = [QueueKey(tenant, name) for tenant in NAMES for name in NAMES]
    for key in keys:
        store.enqueue(key, [Draft("id", key.name, repr(key).encode())])

    for key in keys:
        request = ClaimRequest(worker="w", limit=9, lease=9.0, kinds=frozenset([key.name]))
        (job,) = store.claim(key, request).jobs
        assert job.payload == repr(key).encode()
    infos = store.describe(None)
    assert [info.key for info in infos] == sorted(keys)
    assert all(info.counts[State.PROCESSING] == 1 for info in infos)


def test_keys_sort_as_tuples_do_and_come_back(store):
    keys = [(), ("",), *((name,) for name in NAMES), *((a, b) for a in NAMES for b in NAMES)]
    store.write_keys("t", [KeyWrite(key=key, value=b"v") for key in keys])

    assert sorted(keys) == sorted(keys, key=encode_key)
    assert [decode_key(encode_key(key)) for key in keys] == keys
    assert [entry.key for entry in store.read_keys("t", (), 1000)] == sorted(keys)
    under = [entry.key for entry in store.read_keys("t", ("a",), 1000)]
    assert under == sorted(key for key in keys if key[:1] == ("a",))


def test_a_piece_of_the_payload_is_found(store):
    queue = QueueKey("default", "q")
    store.enqueue(queue, [Draft("a", "k", "né%e\0e".encode()), Draft("b", "k", b"other")])

    page = store.page(queue, Filter(text="é%e\0"), None, 10)

    assert [job.id for job in page.jobs] == ["a"]
