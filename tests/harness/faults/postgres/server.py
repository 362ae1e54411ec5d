"""A PostgreSQL server as the drills need it."""

from __future__ import annotations

from tests.harness.faults.proxy import Address
from tests.harness.servers.ports import HOST
from tests.harness.servers.postgres import PostgresServer


class KillablePostgres(PostgresServer):
    """Can be killed by an immediate stop, and is reached over TCP."""

    def kill(self) -> None:
        """SIGQUIT, as `pg_ctl stop -m immediate`: nothing more is written."""
        self.stop_immediately()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return HOST, self.port


def url_of(address: Address, url_options: str = "", *, user: str = "postgres") -> str:
    """The server at an address, for a store."""
    host, port = address
    return f"postgresql://{user}@{host}:{port}/postgres{url_options}"
