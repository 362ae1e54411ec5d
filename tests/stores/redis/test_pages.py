"""Very many jobs are listed in order, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stores.redis.conftest import QUEUE, done, drafts, wants

from ackline.core.config import QueueSettings
from ackline.core.job import Draft, Options, Record, State
from ackline.stores.contract import Filter
from ackline.stores.redis import RedisStore, queries

LEASED = Filter(states=frozenset({State.PROCESSING}))
QUEUED = Filter(states=frozenset({State.QUEUED}))


def all_pages(
    store: RedisStore, which: Filter, size: int, newest_first: bool = False
) -> Iterator[list[Record]]:
    cursor = None
    while True:
        page = store.page(QUEUE, which, cursor, size, newest_first)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def ids(jobs: list[Record]) -> list[int]:
    return [int(job.id.removeprefix("id")) for job in jobs]


class TestLeased:
    @pytest.fixture
    def store(self, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> RedisStore:
        """More leased jobs than one call reads, which lapse in another order."""
        monkeypatch.setattr(queries, "SCAN_COUNT", 20)
        store.enqueue(QUEUE, drafts(300))
        for lease in (90.0, 30.0, 60.0):
            store.claim(QUEUE, wants(100, lease=lease))
        return store

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("size", [1, 7, 200, 1000])
    def test_are_listed_by_age_each_once(self, store, size, newest_first):
        if size == 1:
            store.apply(QUEUE, [done(job) for job in store.page(QUEUE, LEASED, None, 280).jobs])
        there = ids(store.page(QUEUE, LEASED, None, 1000).jobs)

        pages = list(all_pages(store, LEASED, size, newest_first))

        assert [id for page in pages for id in ids(page)] == sorted(there, reverse=newest_first)
        assert max(map(len, pages)) <= size

    def test_jobs_that_finish_meanwhile_are_left_out(self, store):
        pages = all_pages(store, LEASED, 100)
        first = next(pages)
        store.apply(QUEUE, [done(job) for job in first])
        [second] = store.get(QUEUE, ["id150"])
        store.apply(QUEUE, [done(second)])

        rest = [id for page in pages for id in ids(page)]

        assert rest == [id for id in range(100, 300) if id != 150]

    def test_no_script_reads_all_of_them(self, store, client):
        client.config_resetstat()

        store.page(QUEUE, LEASED, None, 10)

        named = client.info("commandstats")["cmdstat_zscan"]["calls"]
        assert named >= 300 / 50
        assert "cmdstat_zrange" not in client.info("commandstats")


@pytest.mark.parametrize("newest_first", [False, True])
def test_jobs_of_more_groups_than_a_page_are_in_order(store, newest_first):
    """Parked jobs are in lists of their own."""
    store.configure(QUEUE, QueueSettings(group_limit=1))
    store.enqueue(
        QUEUE,
        [
            Draft(f"id{n}", "mail", b"", options=Options(group=f"g{n % 40}"), priority=n % 3)
            for n in range(200)
        ],
    )
    store.claim(QUEUE, wants(200))  # one of each group; the others are parked
    whole = ids(store.page(QUEUE, QUEUED, None, 1000, newest_first).jobs)
    assert len(whole) == 160

    pages = list(all_pages(store, QUEUED, 7, newest_first))

    assert [id for page in pages for id in ids(page)] == whole
