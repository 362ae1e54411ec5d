"""A PostgreSQL server for the comparison; each measure has a database of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import psycopg
from comparison.server import Figures
from private_servers import PostgresServer

SETTINGS = {
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    # A checkpoint in the middle of a measure would distort that one alone.
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
}

DATABASE = "bench"

TICKS = os.sysconf("SC_CLK_TCK")


class PostgresBenchmarkServer:
    """A private PostgreSQL server."""

    columns: ClassVar = {
        "bulk_server_us": "server µs, bulk enqueue",
        "drain_server_us": "server µs, drain",
        "drain_worker_us": "worker µs, drain",
        "bulk_wal_bytes": "WAL bytes, bulk enqueue",
        "drain_wal_bytes": "WAL bytes, drain",
        "drain_dead_rows": "dead rows, drain",
    }
    durability = "fsync and synchronous_commit on: an answered job survives a loss of power"

    def __init__(self, **others: str) -> None:
        self._server = PostgresServer(fsync=True, **SETTINGS, **others)

    def __enter__(self) -> Self:
        self._server.start()
        self._own = self._server.connect()
        return self

    def __exit__(self, *_error: object) -> None:
        self._own.close()
        self._server.stop()

    @property
    def url(self) -> str:
        return self._server.url.removesuffix("postgres") + DATABASE

    @property
    def name(self) -> str:
        return f"PostgreSQL {self._query('SHOW server_version').split()[0]}"

    def empty(self) -> None:
        self._own.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        self._own.execute(f"CREATE DATABASE {DATABASE}")

    def connect(self) -> psycopg.Connection[Any]:
        """A connection to the database of the measure."""
        return self._server.connect(dbname=DATABASE)

    def usage(self) -> Figures:
        self._server.wait_for("the others to go", self._is_alone)
        with self.connect() as connection:
            [(dead,)] = connection.execute(
                "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables"
            )
        return {
            "cpu": self.processor_time(),
            "wal": float(self._query("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")),
            "dead": dead,
        }

    def processor_time(self) -> float:
        """Processor time of the server and all its processes, including those that have exited."""
        return processor_time(self._server.pid)

    def _is_alone(self) -> bool:
        others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
        return not self._query(f"SELECT count(*) FROM pg_stat_activity WHERE {others}")

    def _query(self, query: str) -> Any:
        [(answer,)] = self._own.execute(query)
        return answer

    def costs(self, measure: str, used: Figures, jobs: int) -> Iterator[Figures]:
        yield {
            f"{measure}_server_us": used["cpu"] / jobs * 1e6,
            f"{measure}_wal_bytes": used["wal"] / jobs,
            f"{measure}_dead_rows": used["dead"] / jobs,
        }


def processor_time(server: int) -> float:
    """Processor time of a server and all its processes, including those that have exited."""
    used = sum(ticks(server)[:4])
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if parent_of(int(folder.name)) == server:
                used += sum(ticks(int(folder.name))[:2])
        except (FileNotFoundError, ProcessLookupError):
            # It has exited, and is counted among the exited children.
            continue
    return used / TICKS


def ticks(process: int) -> list[int]:
    """User and system time of a process, then of its children that have exited."""
    return [int(number) for number in stat(process)[11:15]]


def parent_of(process: int) -> int:
    return int(stat(process)[1])


def stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
