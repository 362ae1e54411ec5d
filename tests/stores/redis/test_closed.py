"""A store that is not open, or no longer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.stores.redis.conftest import BEAT, QUEUE, REQUEST, drafts

from ackline.config import DEFAULTS, QueueSettings
from ackline.errors import StoreUnavailable
from ackline.lifecycle import cancel
from ackline.stores.base import Filter, KeyWrite
from ackline.stores.redis import RedisStore
from ackline.stores.redis.address import read_address

VERBS: dict[str, Callable[[RedisStore], object]] = {
    "info": lambda store: store.info(),
    "enqueue": lambda store: store.enqueue(QUEUE, drafts(1)),
    "claim": lambda store: store.claim(QUEUE, REQUEST),
    "apply": lambda store: store.apply(QUEUE, [cancel("id0", DEFAULTS)]),
    "heartbeat": lambda store: store.heartbeat(QUEUE, BEAT, []),
    "promote": lambda store: store.promote(QUEUE, 10),
    "leases": lambda store: store.leases(QUEUE),
    "prune": lambda store: store.prune(QUEUE, 10),
    "get": lambda store: store.get(QUEUE, ["id0"]),
    "page": lambda store: store.page(QUEUE, Filter(), None, 10),
    "describe": lambda store: store.describe(None),
    "workers": lambda store: store.workers([QUEUE])[0],
    "events": lambda store: store.events(QUEUE, None, 10),
    "all events": lambda store: store.events(None, None, 10),
    "listen": lambda store: store.listen([QUEUE], "ready"),
    "configure": lambda store: store.configure(QUEUE, QueueSettings(paused=True)),
    "purge": lambda store: store.purge(QUEUE, Filter(), 10),
    "read_keys": lambda store: store.read_keys("default", (), 10),
    "write_keys": lambda store: store.write_keys("default", [KeyWrite(key=("a",), value=b"1")]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_a_closed_store_says_so(store, verb):
    store.close()

    with pytest.raises(StoreUnavailable, match=r"open\(\)"):
        VERBS[verb](store)


def test_a_store_that_was_never_opened_says_so(url):
    with pytest.raises(StoreUnavailable, match=r"open\(\)"):
        RedisStore(read_address(url)).enqueue(QUEUE, drafts(1))


def test_it_can_be_closed_twice_and_opened_again(store):
    store.enqueue(QUEUE, drafts(1))

    store.close()
    store.close()
    store.open()

    assert store.get(QUEUE, ["id0"])[0] is not None


def test_it_can_be_opened_twice(store, client):
    store.open()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_closing_lets_go_of_all_connections(open_store, server, client):
    before = client.info("clients")["connected_clients"]
    store = open_store()
    store.enqueue(QUEUE, drafts(1))
    store.listen([QUEUE], "ready")
    assert client.info("clients")["connected_clients"] > before

    store.close()

    server.wait_for("the end", lambda: client.info("clients")["connected_clients"] == before)
