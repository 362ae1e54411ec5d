from pathlib import Path
from typing import Any

import psycopg
import pytest

from ackline.clock import Clock
from ackline.stores.base import Store
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.address import read_address
from ackline.testing.conformance import StoreConformance
from ackline.testing.servers.postgres import PostgresServer


class TestPostgres(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: PostgresServer) -> None:
        self.server = postgres_server

    def make_store(self, clock: Clock, place: Path) -> Store:
        # Every case has a folder of its own, and so a schema of its own.
        return PostgresStore(read_address(f"{self.server.socket_url}&schema={place.name}"), clock)

    def make_connection(self, place: Path) -> psycopg.Connection[Any]:
        return self.server.connect(autocommit=False)
