"""A private standby of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

from tests.harness.servers.ports import HOST
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.postgres_programs import USER, change_owner, copy_data

SINCE_15 = ("SELECT pg_backup_start('ackline', true)", "SELECT labelfile FROM pg_backup_stop()")
UNTIL_14 = (
    "SELECT pg_start_backup('ackline', true, false)",
    "SELECT labelfile FROM pg_stop_backup(false)",
)


class PostgresStandby(PostgresServer):
    """A hot standby, which can be promoted to a primary.

    >>> with PostgresServer() as primary, PostgresStandby(primary) as standby:  # doctest: +SKIP
    ...     standby.promote()
    """

    def __init__(self, primary: PostgresServer, *, fsync: bool = False, **others: str) -> None:
        super().__init__(fsync=fsync, **others)
        self.primary = primary

    def command(self) -> list[str]:
        """The command line that starts it."""
        primary = f"host={HOST} port={self.primary.port} user={USER}"
        return [*super().command(), "-c", f"primary_conninfo={primary}"]

    def promote(self) -> None:
        """Promote it to a primary, and wait until it is one."""
        with self.connect() as connection:
            connection.execute("SELECT pg_promote()")

    def wait_until_caught_up(self) -> None:
        """Wait until it has everything that its primary has now."""
        with self.primary.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        self.wait_for("all that its primary has", lambda: self._has(row[0] if row else ""))

    def _has(self, position: str) -> bool:
        with self.connect() as connection:
            row = connection.execute(
                "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]
            ).fetchone()
        return bool(row and row[0])

    def _prepare(self) -> None:
        self.folder.mkdir(exist_ok=True)
        change_owner(self.folder)
        with self.primary.connect() as connection:
            begin, end = SINCE_15 if connection.info.server_version >= 150000 else UNTIL_14
            # The session that began the backup must end it.
            connection.execute(begin.encode())
            copy_data(self.primary.data, self.data)
            row = connection.execute(end.encode()).fetchone()
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        self._write(self.data / "backup_label", row[0] if row else "")
        self._write(self.data / "standby.signal", "")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        change_owner(path)
