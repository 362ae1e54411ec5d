"""Cached queues are used until another process has written."""

from __future__ import annotations

import pytest
from tests.stores.sqlite.conftest import QUEUE, REQUEST, drafts

from ackline.core.config import QueueSettings
from ackline.core.errors import StoreFull
from ackline.core.job import Draft, State
from ackline.stores.contract import ClaimRequest, Filter
from ackline.stores.sqlite import SqliteStore
from ackline.stores.sqlite.enqueue import enqueue as store_enqueue


@pytest.fixture
def other(path, store):
    """Another store on the same file; both know the queue, its kind and its last numbers."""
    other = SqliteStore(path, "normal")
    other.open()
    store.enqueue(QUEUE, drafts(1))
    other.enqueue(QUEUE, drafts(1, 1))
    yield other
    other.close()


def one(worker):
    return ClaimRequest(worker=worker, limit=1, lease=30.0)


def test_jobs_and_events_of_two_writers_have_numbers_of_their_own(store, other):
    for n in range(2, 10):
        writer = (store, other)[n % 2]
        assert writer.enqueue(QUEUE, [Draft(f"id{n}", "mail", b"", assume_new=True)])[0].accepted

    expected = [f"id{n}" for n in range(10)]
    assert [event.id for event in store.events(QUEUE, None, 100)] == expected
    assert [job.id for job in store.claim(QUEUE, REQUEST).jobs] == expected
    assert store.describe("default")[0].counts[State.PROCESSING] == 10


def test_settings_changed_by_another_store_apply_at_once(store, other):
    other.configure(QUEUE, QueueSettings(max_jobs=2))
    with pytest.raises(StoreFull):
        store.enqueue(QUEUE, drafts(1, 2))

    other.configure(QUEUE, QueueSettings(paused=True))
    assert store.claim(QUEUE, REQUEST).jobs == []


def test_a_list_dropped_by_another_store_is_created_again(store, other):
    other.purge(QUEUE, Filter(), 10)
    other.prune(QUEUE, 10)

    store.enqueue(QUEUE, drafts(1, 5))

    assert [job.id for job in other.claim(QUEUE, REQUEST).jobs] == ["id5"]


def test_a_failed_transaction_caches_nothing(store, engine):
    def enqueue(tx, *drafts):
        return store_enqueue(tx, QUEUE, drafts, 1.0)

    def fail(tx):
        enqueue(tx, Draft("lost", "new kind", b"", assume_new=True))
        raise RuntimeError("not this one")

    engine.write(lambda tx: enqueue(tx, *drafts(1)))

    with pytest.raises(RuntimeError):
        engine.write(fail)

    engine.write(lambda tx: enqueue(tx, Draft("kept", "new kind", b"", assume_new=True)))
    assert [job.id for job in store.claim(QUEUE, REQUEST).jobs] == ["id0", "kept"]
    assert [event.id for event in store.events(QUEUE, None, 9)] == ["id0", "kept", "id0", "kept"]
