"""Workers and producers are killed and suspended, as on any store."""

from __future__ import annotations

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills import worker_kills
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.postgres.server import KillablePostgres


def kill_workers(options: DrillOptions) -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    with KillablePostgres() as server:
        return worker_kills.kill_workers(server.url, options)


def kill_early_completing_workers(options: DrillOptions) -> Report:
    """The control: a worker that completes jobs before it runs them loses some."""
    with KillablePostgres() as server:
        return worker_kills.kill_workers(server.url, options, variant="completes on claim")
