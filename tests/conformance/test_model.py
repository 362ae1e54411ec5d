import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.memory import MemoryStore
from ackline.stores.postgres.store import from_url as postgres_store
from ackline.stores.redis.store import from_url as redis_store
from ackline.stores.sqlite import SqliteStore
from ackline.testing.model import run_model

STORES = ("memory", "sqlite", "redis", "postgres")

HISTORIES = os.environ.get("ACKLINE_HISTORIES")
"""How many are wanted: more than a check has time for, to kill mutants, or days of them."""

MakeStore = Callable[[Clock], Store]


@pytest.fixture
def make_store(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> MakeStore:
    if store == "redis":
        url = request.getfixturevalue("redis_server").url
        return lambda clock: redis_store(f"{url}?prefix={tmp_path.name}", clock)
    if store == "postgres":
        url = request.getfixturevalue("postgres_server").socket_url
        return lambda clock: postgres_store(f"{url}&schema={tmp_path.name}", clock)
    if store == "sqlite":
        # What survives a power cut is not what differs here, and costs most of the time.
        return lambda clock: SqliteStore(str(tmp_path / "jobs.db"), "normal", clock)
    return MemoryStore


@pytest.mark.parametrize("store", STORES)
def test_random_histories_do_not_differ_from_the_reference(make_store: MakeStore) -> None:
    run_model(make_store, histories=int(HISTORIES or 40), steps=50)


@pytest.mark.slow
@pytest.mark.parametrize("store", [name for name in STORES if name != "memory"])
def test_many_random_histories_do_not_differ(make_store: MakeStore) -> None:
    run_model(make_store, histories=int(HISTORIES or 10_000), steps=60, repeatable=False)
