"""The server is stopped without a checkpoint and restarted: it recovers, and so do the workers."""

from __future__ import annotations

from ackline.queues import open as open_queues
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_restarts import kill_server
from tests.harness.faults.postgres.server import KillablePostgres


def kill_server_sync_commit(options: DrillOptions) -> Report:
    """An immediate stop with `synchronous_commit` on: nothing that was answered is lost."""
    with KillablePostgres() as server:
        return kill_server(options, server, "a server with synchronous_commit on")


def kill_server_async_commit(options: DrillOptions) -> Report:
    """The same with `synchronous_commit` off: the control, which must lose."""
    # It answers before anything is written, and delays writing as long as possible.
    server = KillablePostgres(
        synchronous_commit="off",
        wal_writer_delay="10s",
        wal_writer_flush_after="1GB",
        wal_buffers="64MB",
        autovacuum="off",
    )
    with server:
        # The schema must survive: only answered changes are to be lost.
        _write_schema_to_disk(server)
        return kill_server(
            options,
            server,
            "a server with synchronous_commit off and delayed WAL writes",
            timeout=3.0,
        )


def _write_schema_to_disk(server: KillablePostgres) -> None:
    open_queues(server.url).close()
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
