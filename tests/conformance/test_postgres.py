from collections.abc import Iterator
from pathlib import Path

import pytest

from ackline.clock import Clock
from ackline.stores.base import Store
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.address import read_address
from ackline.testing.conformance import StoreConformance
from ackline.testing.model import run_model
from ackline.testing.servers.postgres import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    # What survives a crash is not what differs here, and costs most of the time. Readers of the
    # journal wait for whoever writes anywhere on the server, and so for its own maintenance.
    with PostgresServer(synchronous_commit="off", autovacuum="off") as server:
        yield server


class TestPostgres(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server: PostgresServer) -> None:
        self.server = server

    def make_store(self, clock: Clock, place: Path) -> Store:
        # Every case has a folder of its own, and so a schema of its own.
        return PostgresStore(read_address(f"{self.server.socket_url}&schema={place.name}"), clock)


def test_random_histories_do_not_differ_from_the_reference(server: PostgresServer) -> None:
    address = read_address(f"{server.socket_url}&schema=histories")
    run_model(lambda clock: PostgresStore(address, clock), histories=100, steps=50)
