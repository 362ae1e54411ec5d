from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address
from ackline.testing.conformance import StoreConformance

SCHEMA = "conformance"

OTHER_ROWS = """
    SELECT format('DELETE FROM %%I.%%I', schemaname, tablename) FROM pg_tables
    WHERE schemaname = %s AND tablename NOT IN ('migration', 'epoch')
"""


@pytest.fixture(scope="module")
def wiping(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """One connection for what is done before each case: to make one costs as much as its work."""
    with postgres_server.connect() as connection:
        connection.execute("SET session_replication_role = replica")  # in any order
        yield connection


@pytest.fixture(autouse=True)
def no_errors(postgres_server: PostgresServer) -> Iterator[None]:
    """What the store does is no error to the server: nothing fills its log."""
    begin = postgres_server.log.stat().st_size
    yield
    logged = postgres_server.log.read_bytes()[begin:].decode(errors="replace")
    assert [line for line in logged.splitlines() if "ERROR:" in line] == []


class TestPostgres(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: PostgresServer, wiping: psycopg.Connection[Any]) -> None:
        self.server = postgres_server
        # One schema for all cases: to empty it takes a fifteenth of the time that making one does.
        for (delete,) in wiping.execute(OTHER_ROWS, [SCHEMA]).fetchall():
            wiping.execute(delete)

    def make_store(self, clock: Clock, path: Path) -> Store:
        return PostgresStore(read_address(f"{self.server.socket_url}&schema={SCHEMA}"), clock)

    def make_connection(self, path: Path) -> psycopg.Connection[Any]:
        return self.server.connect(autocommit=False)
