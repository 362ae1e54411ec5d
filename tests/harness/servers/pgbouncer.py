"""A private PgBouncer in front of a private PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import psycopg

from tests.harness.servers.errors import NoServerProgram
from tests.harness.servers.ports import HOST
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.postgres_programs import USER, change_owner, run_as_owner
from tests.harness.servers.server import PrivateServer

VARIABLE = "ACKLINE_PGBOUNCER"
"""The environment variable that names the program; it takes precedence over PATH."""

CONFIGURATION = """\
[databases]
postgres = host={host} port={server} user={user}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = {user}
logfile =
pidfile =
"""


def pgbouncer_program() -> Path:
    """Find the program: by the environment, or on PATH."""
    named = os.environ.get(VARIABLE)
    # Debian has it in a folder that is only on the PATH of root.
    path = shutil.which(named or "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        raise NoServerProgram(f"no PgBouncer: install it, or name the program in {VARIABLE}")
    return Path(path)


def pgbouncer_version() -> tuple[int, ...]:
    """Its major and minor version."""
    done = subprocess.run(
        [str(pgbouncer_program()), "--version"], check=True, capture_output=True, text=True
    )
    return tuple(map(int, done.stdout.split()[1].split(".")[:2]))


class PgBouncer(PrivateServer):
    """Shares a few sessions of a server among many clients.

    >>> with PostgresServer() as server, PgBouncer(server) as pooler:  # doctest: +SKIP
    ...     queues = ackline.open(f"{pooler.url}?pooler=transaction")
    """

    name = "pgbouncer"

    def __init__(self, server: PostgresServer, **settings: str) -> None:
        super().__init__()
        self.server = server
        self.settings = {"pool_mode": "transaction", "default_pool_size": "4", **settings}

    @property
    def url(self) -> str:
        """The URL for a store; in transaction mode, add `?pooler=transaction`."""
        return f"postgresql://{USER}@{HOST}:{self.port}/postgres"

    def command(self) -> list[str]:
        """The command line that starts it."""
        text = CONFIGURATION.format(
            host=HOST, user=USER, server=self.server.port, port=self.port
        ) + "".join(f"{name} = {value}\n" for name, value in self.settings.items())
        path = self.folder / "pgbouncer.ini"
        path.write_text(text)
        change_owner(path)
        return run_as_owner([str(pgbouncer_program()), str(path)])

    def _prepare(self) -> None:
        super()._prepare()
        change_owner(self.folder)

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False
