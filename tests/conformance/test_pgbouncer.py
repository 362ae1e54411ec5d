"""Every rule, through a PgBouncer that gives each transaction another session."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.harness.servers.errors import NoServerProgram
from tests.harness.servers.pgbouncer import PgBouncer, pgbouncer_version
from tests.harness.servers.postgres import PostgresServer

from ackline.core.clock import Clock
from ackline.stores.contract import Store
from ackline.stores.postgres.store import from_url
from ackline.testing.conformance import StoreConformance

pytestmark = pytest.mark.slow

KEEPS_PREPARED = (1, 21)


@pytest.fixture(scope="module")
def pooler(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    try:
        version = pgbouncer_version()
    except NoServerProgram as error:
        pytest.skip(str(error))
    kept = {"max_prepared_statements": "200"} if version >= KEEPS_PREPARED else {}
    with PgBouncer(postgres_server, default_pool_size="8", **kept) as pooler:
        yield pooler


class Pooled(StoreConformance):
    options = "pooler=transaction"

    @pytest.fixture(autouse=True)
    def _pooler(self, pooler: PgBouncer) -> None:
        self.pooler = pooler

    def make_store(self, clock: Clock, path: Path) -> Store:
        return from_url(f"{self.pooler.url}?schema=bounced_{path.name}&{self.options}", clock)

    def make_connection(self, path: Path) -> psycopg.Connection[Any]:
        # As applications behind such a pooler connect: without prepared statements.
        return psycopg.connect(self.pooler.url, prepare_threshold=None)


class TestPooled(Pooled):
    pass


class TestPooledAndPrepared(Pooled):
    options = "pooler=transaction&prepare=yes"

    @pytest.fixture(autouse=True)
    def _keeps_prepared(self, pooler: PgBouncer) -> None:
        if pgbouncer_version() < KEEPS_PREPARED:
            pytest.skip("PgBouncer keeps prepared statements from 1.21 on")
