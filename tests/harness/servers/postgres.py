"""A private PostgreSQL server."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from tests.harness.servers.ports import HOST
from tests.harness.servers.postgres_programs import (
    USER,
    change_owner,
    copy_data,
    empty_data,
    programs,
    run_as_owner,
)
from tests.harness.servers.server import START_TIMEOUT, PrivateServer

_SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "log_min_messages": "warning",
    "logging_collector": "off",
}


class PostgresServer(PrivateServer):
    """Starts in about a second, listens on loopback and a Unix socket, ends with this process.

    >>> with PostgresServer() as server:  # doctest: +SKIP
    ...     server.stop_immediately()
    ...     server.restart()
    """

    name = "postgres"

    def __init__(self, *, fsync: bool = False, **others: str) -> None:
        super().__init__()
        self.settings = {"fsync": "on" if fsync else "off", **_SETTINGS, **others}

    # --- addresses ---

    @property
    def url(self) -> str:
        """The URL for a store, over TCP."""
        return f"postgresql://{USER}@{HOST}:{self.port}/postgres"

    @property
    def socket_url(self) -> str:
        """The URL for a store, over its Unix socket."""
        host = quote(str(self.folder), safe="")
        return f"postgresql://{USER}@/postgres?host={host}&port={self.port}"

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.folder / "data"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A plain connection; close it, or use it in a `with`."""
        return psycopg.connect(self.socket_url, **{"autocommit": True, **options})

    # --- faults ---

    def stop_immediately(self) -> None:
        """Stop it without a checkpoint, like a crash: it recovers from its log."""
        self._end_by(signal.SIGQUIT)

    def stop_fast(self) -> None:
        """Stop it gracefully; clients are disconnected."""
        self._end_by(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP to the server, not to its processes that serve connections."""
        super().pause()

    # --- starting and ending ---

    def command(self) -> list[str]:
        """The command line that starts it."""
        settings = {
            **self.settings,
            "port": str(self.port),
            "listen_addresses": HOST,
            "unix_socket_directories": str(self.folder),
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        return run_as_owner([str(programs() / "postgres"), "-D", str(self.data), *options])

    def _prepare(self) -> None:
        super()._prepare()
        change_owner(self.folder)
        copy_data(empty_data(), self.data)

    def _answers(self) -> bool:
        try:
            with self.connect(connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _end(self) -> None:
        self.stop_fast()

    def _end_by(self, number: signal.Signals) -> None:
        process = self._running
        process.send(signal.SIGCONT)
        process.send(number)
        until = time.monotonic() + START_TIMEOUT
        while process.alive and time.monotonic() < until:
            time.sleep(0.01)
        process.kill()
