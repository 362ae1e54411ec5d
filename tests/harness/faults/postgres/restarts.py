"""The server stops at once and is started again: it recovers, and so do the workers."""

from __future__ import annotations

from ackline.queues import open as open_queues
from tests.harness.faults.postgres.mortal import MortalPostgres
from tests.harness.faults.report import Report
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.restarts import kill_server


def stop(order: Order) -> Report:
    """An immediate stop with `synchronous_commit` on: nothing that was answered is lost."""
    with MortalPostgres() as server:
        return kill_server(order, server, "a server with synchronous_commit on")


def stop_forgetful(order: Order) -> Report:
    """The same with `synchronous_commit` off: the control, which must lose."""
    # It answers before anything is written, and writes as late as it can.
    late = MortalPostgres(
        synchronous_commit="off",
        wal_writer_delay="10s",
        wal_writer_flush_after="1GB",
        wal_buffers="64MB",
        autovacuum="off",
    )
    with late as server:
        # The schema must stay: only answers are to be lost.
        _keep_schema(server)
        return kill_server(
            order, server, "a server with synchronous_commit off and a late log", patience=3.0
        )


def _keep_schema(server: MortalPostgres) -> None:
    open_queues(server.url).close()
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
