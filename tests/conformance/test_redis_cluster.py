"""The conformance suite on a cluster of three nodes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.harness.faults.processes import wait_for
from tests.harness.servers.redis_cluster import RedisCluster

from ackline.core.clock import Clock
from ackline.core.config import QueueSettings
from ackline.core.errors import ConfigError, EventsDropped
from ackline.core.events import Event
from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import move
from ackline.queue.journal.reader import JournalReader
from ackline.stores.contract import ClaimRequest, Filter, Store
from ackline.stores.redis import RedisStore
from ackline.stores.redis.io.address import read_address
from ackline.testing.conformance import StoreConformance

pytestmark = pytest.mark.slow

BY_SERVER_TIME = "a cluster's journals are read as one by the time of its servers: see below"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


class TestRedisCluster(StoreConformance):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: RedisCluster) -> None:
        self.cluster = cluster

    def make_store(self, clock: Clock, path: Path) -> Store:
        return RedisStore(read_address(f"{self.cluster.url}?prefix={path.name}"), clock)

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_a_reader_can_start_at_the_end(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_a_reader_of_all_queues_sees_all_in_order(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_a_reader_of_a_tenant_sees_all_its_queues_in_order(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_a_reader_of_a_tenant_with_a_journal_of_its_own(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_no_reader_skips_a_late_committer(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_the_departure_is_recorded_before_the_arrival(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_a_reader_that_started_at_the_end_gets_the_error_too(self) -> None: ...  # type: ignore[override]

    @pytest.mark.skip(BY_SERVER_TIME)
    def test_a_reader_can_start_with_an_empty_journal(self) -> None: ...  # type: ignore[override]


@pytest.fixture
def store(cluster: RedisCluster, tmp_path: Path) -> Iterator[RedisStore]:
    store = RedisStore(read_address(f"{cluster.url}?prefix={tmp_path.name}"))
    store.open()
    yield store
    store.close()


def read_until(store: Store, count: int, after: str | None = None) -> list[Event]:
    """Follow all journals until this many events were read."""
    seen: list[Event] = []

    def enough() -> bool:
        while page := store.events(None, seen[-1].cursor if seen else after, 7):
            seen.extend(page)
        return len(seen) >= count

    wait_for(f"{count} events", enough)
    return seen


def test_queues_spread_over_the_masters(store: RedisStore, cluster: RedisCluster, tmp_path: Path):
    for number in range(30):
        store.enqueue(QueueKey("default", f"queue {number}"), [Draft("a", "k", b"")])

    held = [
        sum(1 for _ in server.client().scan_iter(f"{tmp_path.name}:*:job", 1000))
        for server in cluster.servers
    ]

    assert sum(held) == 30
    assert all(count > 3 for count in held), held


def test_every_master_must_be_safe(cluster: RedisCluster, tmp_path: Path):
    """Each has some of the queues, so a single one that evicts keys is too many."""
    for server in cluster.servers:
        store = RedisStore(read_address(f"{cluster.url}?prefix={tmp_path.name}"))
        with server.client() as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
            try:
                with pytest.raises(ConfigError, match=f":{server.port}"):
                    store.open()
            finally:
                client.config_set("maxmemory-policy", "noeviction")
        store.open()
        assert store.info().issues == ()
        store.close()


def test_a_reader_of_all_queues_misses_nothing_while_many_write(store: RedisStore):
    queues = [QueueKey("default", f"queue {number}") for number in range(6)]

    def write(queue: QueueKey) -> None:
        for number in range(25):
            store.enqueue(queue, [Draft(f"{queue.name}-{number}", "k", b"")])

    with ThreadPoolExecutor(len(queues)) as threads:
        writers = [threads.submit(write, queue) for queue in queues]
        seen = read_until(store, 6 * 25)
        for writer in writers:
            writer.result()

    assert len({event.id for event in seen}) == len(seen) == 6 * 25
    assert [event.cursor for event in seen] == [
        event.cursor for event in store.events(None, None, 1000)
    ]


def test_a_reader_can_start_at_the_end(store: RedisStore):
    queue = QueueKey("default", "work")
    store.enqueue(queue, [Draft("before", "k", b"")])
    read_until(store, 1)
    cursor = store.info().cursor

    store.enqueue(queue, [Draft("after", "k", b"")])

    assert [event.id for event in read_until(store, 1, cursor)] == ["after"]


def test_a_reader_that_started_at_the_end_gets_the_error_too(store: RedisStore):
    queue = QueueKey("default", "work")
    cursor = store.info().cursor
    store.configure(queue, QueueSettings(max_journal=0))
    store.enqueue(queue, [Draft("a", "k", b"")])
    store.prune(queue, 100)

    for which in (queue, None):
        with pytest.raises(EventsDropped):
            store.events(which, cursor, 100)


def test_a_reader_can_start_with_an_empty_journal(store: RedisStore):
    queue = QueueKey("default", "work")
    reader = JournalReader(store, queue, "audit")
    assert reader.read() == []
    store.enqueue(queue, [Draft("a", "k", b"")])

    assert [event.id for event in reader.read()] == ["a"]


def test_a_move_that_a_crash_left_halfway_is_completed_by_pruning(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
):
    here, there = QueueKey("default", "here"), QueueKey("default", "there")
    store.enqueue(here, [Draft("a", "k", b"payload")])

    class Crash(Exception):
        pass

    def crash(*_: object) -> bool:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr("ackline.stores.redis.cluster_moves.finish_move", crash)
        with pytest.raises(Crash):
            store.apply(here, [move("a", there)])
    assert store.get(here, ["a"]) == store.get(there, ["a"]) == [None]

    store.prune(here, 100)

    [job] = store.get(there, ["a"])
    assert job is not None
    assert job.payload == b"payload"
    assert [event.act for event in store.events(there, None, 10)] == ["move"]


def test_moved_jobs_are_not_taken_for_those_that_were_there(store: RedisStore):
    here, there = QueueKey("default", "here"), QueueKey("default", "there")
    store.enqueue(here, [Draft(f"a{n}", "k", b"") for n in range(5)])
    store.enqueue(there, [Draft(f"b{n}", "k", b"") for n in range(5)])
    store.apply(here, [move(f"a{n}", there) for n in range(5)])
    store.claim(there, ClaimRequest(worker="w", limit=10, lease=30.0))

    found: list[str] = []
    page = store.page(there, Filter(), None, 1)
    while page.cursor is not None:
        found += [job.id for job in page.jobs]
        page = store.page(there, Filter(), page.cursor, 1)
    found += [job.id for job in page.jobs]

    assert sorted(found) == [f"a{n}" for n in range(5)] + [f"b{n}" for n in range(5)]
