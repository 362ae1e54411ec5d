"""The memory store stays fast with many jobs."""

from __future__ import annotations

import pytest

from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import move
from ackline.stores.contract import ClaimRequest, Filter
from ackline.stores.memory import MemoryStore
from ackline.stores.memory.data import StoredJob

QUEUE = QueueKey("default", "mail")
JOBS = 2000


@pytest.fixture
def store():
    store = MemoryStore()
    store.open()
    store.enqueue(QUEUE, [Draft(f"id{n}", "mail", b"") for n in range(JOBS)])
    yield store
    store.close()


@pytest.fixture
def recorded(monkeypatch):
    """The id of each job whose record is made."""
    found = []
    record = StoredJob.record

    def counted(job, **options):
        found.append(job.id)
        return record(job, **options)

    monkeypatch.setattr(StoredJob, "record", counted)
    return found


def test_a_purge_of_all_reads_each_job_once(store, recorded):
    while store.purge(QUEUE, Filter(), 100):
        pass

    assert len(recorded) == JOBS


def test_a_purge_starts_with_the_oldest_job_of_any_kind(store):
    """As the other stores do."""
    other = QueueKey("default", "other")
    store.enqueue(other, [Draft("new", "mail", b"")])
    store.apply(QUEUE, [move("id7", other)])

    store.purge(other, Filter(), 1)

    assert [job and job.id for job in store.get(other, ["id7", "new"])] == [None, "new"]


def test_a_purge_of_some_reads_only_those(store, recorded):
    assert store.purge(QUEUE, Filter(ids=frozenset({"id7", "nobody"})), 100) == 1

    assert recorded == ["id7"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_listing_all_reads_each_job_about_once(store, recorded, newest_first):
    cursor, ids = None, []
    while True:
        page = store.page(QUEUE, Filter(), cursor, 100, newest_first)
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break

    assert ids == [f"id{n}" for n in range(JOBS)][:: -1 if newest_first else 1]
    assert len(recorded) < 1.1 * JOBS


def test_a_list_shows_what_has_changed_since_the_last_page(store):
    first = store.page(QUEUE, Filter(), None, 2)
    store.claim(QUEUE, ClaimRequest(worker="w", limit=3, lease=30.0))

    second = store.page(QUEUE, Filter(), first.cursor, 2)

    assert [job.id for job in second.jobs] == ["id3", "id4"]
