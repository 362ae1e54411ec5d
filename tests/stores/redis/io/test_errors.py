"""Errors of servers are translated into ours, which say what to do."""

from __future__ import annotations

import pytest
from tests.harness.servers.ports import HOST
from tests.stores.redis.conftest import QUEUE, drafts
from tests.stores.redis.io.fake_server import FakeServer, error

from ackline.core.errors import (
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)

SCRIPT = " script: 6f3a, on @user_script:74."
LOADING = "LOADING Valkey is loading the dataset in memory"

REFUSALS = [
    (LOADING, StoreUnavailable, "still loading its data"),
    ("OOM command not allowed when used memory > 'maxmemory'.", StoreFull, "purge"),
    ("READONLY You can't write against a read only replica.", StoreReadOnly, "redis+sentinel://"),
    ("MISCONF Valkey is configured to save RDB snapshots, but", StoreReadOnly, "see its log"),
    ("NOREPLICAS Not enough good replicas to write.", StoreUnavailable, "min-replicas-to-write"),
    ("MASTERDOWN Link with MASTER is down", StoreUnavailable, "lost its primary"),
    ("CLUSTERDOWN Hash slot not served", StoreUnavailable, "CLUSTER INFO"),
    ("TRYAGAIN Multiple keys request during rehashing", StoreUnavailable, "another node"),
    ("BUSY Valkey is busy running a script.", StoreUnavailable, "another client's script"),
    ("WRONGTYPE Operation against a key", StoreMismatch, "?prefix="),
    ("NOPERM User bob has no permissions", StoreError, "permission denied"),
    ("NOAUTH Authentication required.", StoreError, "PASSWORD@HOST"),
    ("WRONGPASS invalid username-password pair", StoreError, "wrong user or password"),
    ("ERR unknown command 'EVALSHA'", StoreError, "too old, or it is a proxy"),
    ("SOMETHING that nobody knows yet", StoreError, "SOMETHING that nobody knows yet"),
]


def name_of(row: tuple[str, type[StoreError], str]) -> str:
    return "-".join(row[0].split()[:3])


@pytest.mark.parametrize("within", ["", SCRIPT], ids=["command", "script"])
@pytest.mark.parametrize(
    ("text", "kind", "words"), REFUSALS, ids=[name_of(row) for row in REFUSALS]
)
def test_a_refusal_is_translated(open_store, text, kind, words, within):
    """By a command or in a script, where servers add the line."""
    with FakeServer({"EVALSHA": error(text + within)}) as server:
        store = open_store(f"redis://{HOST}:{server.port}")

        with pytest.raises(StoreError) as refusal:
            store.enqueue(QUEUE, drafts(1))

        store.close()
    assert type(refusal.value) is kind
    assert words in str(refusal.value)
    assert f"redis at {HOST}:{server.port}" in str(refusal.value)


def test_a_server_that_is_loading(open_store):
    with (
        FakeServer({"INFO": error(LOADING)}, error(LOADING)) as server,
        pytest.raises(StoreUnavailable, match="loading"),
    ):
        open_store(f"redis://{HOST}:{server.port}")


def test_a_server_with_too_many_clients(open_store):
    refused = error("ERR max number of clients reached")
    with (
        FakeServer({"INFO": refused}) as server,
        pytest.raises(StoreUnavailable, match="clients"),
    ):
        open_store(f"redis://{HOST}:{server.port}")
