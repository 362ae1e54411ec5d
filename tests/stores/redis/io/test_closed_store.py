"""A store that was not opened or that is closed."""

from __future__ import annotations

import pytest
from tests.stores.redis.conftest import QUEUE, drafts

from ackline.core.errors import StoreUnavailable
from ackline.stores.redis import RedisStore
from ackline.stores.redis.io.address import read_address


def test_a_store_that_was_never_opened_says_so(url):
    with pytest.raises(StoreUnavailable, match=r"open\(\)"):
        RedisStore(read_address(url)).enqueue(QUEUE, drafts(1))


def test_it_can_be_opened_twice(store, client):
    store.open()

    assert store.enqueue(QUEUE, drafts(1))[0].accepted


def test_closing_closes_all_connections(open_store, server, client):
    before = client.info("clients")["connected_clients"]
    store = open_store()
    store.enqueue(QUEUE, drafts(1))
    store.listen([QUEUE], "ready")
    assert client.info("clients")["connected_clients"] > before

    store.close()

    server.wait_for("the end", lambda: client.info("clients")["connected_clients"] == before)
