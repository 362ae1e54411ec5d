"""Workers and producers are killed and stopped, as on any store."""

from __future__ import annotations

from tests.harness.faults.postgres.mortal import MortalPostgres
from tests.harness.faults.report import Report
from tests.harness.faults.server import workers
from tests.harness.faults.server.order import Order


def kill_workers(order: Order) -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    with MortalPostgres() as server:
        return workers.kill_workers(server.url, order)


def kill_hasty_workers(order: Order) -> Report:
    """The control: a worker that acknowledges first loses its jobs when it dies."""
    with MortalPostgres() as server:
        return workers.kill_workers(server.url, order, variant="acks first")
