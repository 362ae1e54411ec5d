"""A replica can be read, but not changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.harness.servers.redis import RedisServer
from tests.harness.servers.redis_replication import wait_until_synced
from tests.stores.redis.conftest import BEAT, QUEUE, REQUEST, SOON, drafts, wants

from ackline.core.config import DEFAULTS, QueueSettings
from ackline.core.errors import StoreReadOnly
from ackline.core.job import State
from ackline.core.lifecycle import cancel
from ackline.stores.contract import Filter, KeyWrite
from ackline.stores.redis import RedisStore
from ackline.stores.redis.io.address import read_address

PREFIX = "replicated"


@pytest.fixture(scope="module")
def replicated(server):
    """A store on a replica whose primary has three jobs, one of them leased."""
    primary = RedisStore(read_address(f"{server.url}?prefix={PREFIX}"))
    primary.open()
    primary.enqueue(QUEUE, drafts(3))
    primary.claim(QUEUE, wants(1))
    with RedisServer(replica_of=server) as replica:
        wait_until_synced(replica)
        store = RedisStore(read_address(f"{replica.url}?prefix={PREFIX}"))
        store.open()
        yield store
        store.close()
    primary.close()


READS: dict[str, Callable[[RedisStore], object]] = {
    "get": lambda store: [job and job.id for job in store.get(QUEUE, ["id0"])] == ["id0"],
    "page": lambda store: len(store.page(QUEUE, Filter(), None, 10).jobs) == 3,
    "describe": lambda store: store.describe(None)[0].counts[State.QUEUED] == 2,
    "events": lambda store: len(store.events(QUEUE, None, 10)) == 4,
    "all events": lambda store: len(store.events(None, None, 10)) == 4,
    "leases": lambda store: len(store.leases(QUEUE, worker="w")) == 1,
    "workers": lambda store: store.workers([QUEUE])[0] == [],
    "next_due": lambda store: store.next_due([QUEUE])[0].lease_at is not None,
    "now": lambda store: store.now() > 0,
    "read_keys": lambda store: store.read_keys("default", (), 10) == [],
    "info": lambda store: store.info().details["role"] == "slave",
}

WRITES: dict[str, Callable[[RedisStore], object]] = {
    "enqueue": lambda store: store.enqueue(QUEUE, drafts(5)),
    "claim": lambda store: store.claim(QUEUE, REQUEST),
    "apply": lambda store: store.apply(QUEUE, [cancel("id2", DEFAULTS)]),
    "heartbeat": lambda store: store.heartbeat(QUEUE, BEAT, []),
    "promote": lambda store: store.promote(QUEUE, 10),
    "prune": lambda store: store.prune(QUEUE, 10),
    "purge": lambda store: store.purge(QUEUE, Filter(), 10),
    "configure": lambda store: store.configure(QUEUE, QueueSettings(paused=True)),
    "write_keys": lambda store: store.write_keys("default", [KeyWrite(key=("a",), value=b"1")]),
}


@pytest.mark.parametrize("verb", READS)
def test_it_can_be_read(replicated, verb):
    assert READS[verb](replicated)


@pytest.mark.parametrize("verb", WRITES)
def test_it_cannot_be_changed(replicated, verb):
    with pytest.raises(StoreReadOnly, match=r"redis\+sentinel"):
        WRITES[verb](replicated)


def test_its_changes_can_be_followed(replicated, open_store, server):
    primary = open_store(f"{server.url}?prefix={PREFIX}")
    with replicated.listen([QUEUE], "changes") as listener:
        primary.enqueue(QUEUE, drafts(1, start=10))

        assert listener.wait(SOON)


def test_a_replica_without_our_keys_cannot_be_initialized(open_store, replicated):
    port = replicated.info().location.rpartition(":")[2]

    store = open_store(f"redis://127.0.0.1:{port}?prefix=unknown")

    with pytest.raises(StoreReadOnly, match="primary"):
        store.enqueue(QUEUE, drafts(1))
