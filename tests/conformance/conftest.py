from collections.abc import Iterator

import pytest

from ackline.testing.servers.postgres import PostgresServer
from ackline.testing.servers.redis import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    # What survives a crash is not what differs here, and costs most of the time. Readers of the
    # journal wait for whoever writes anywhere on the server, and so for its own maintenance.
    with PostgresServer(synchronous_commit="off", autovacuum="off") as server:
        yield server
