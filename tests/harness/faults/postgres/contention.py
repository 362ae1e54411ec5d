"""A crowd on one queue: the store itself handles deadlocks, which are counted."""

from __future__ import annotations

import time

import msgspec

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.contention import run_contention
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.postgres.server import KillablePostgres

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

STATISTICS_DELAY = 1.5
"""Seconds after which the server has counted what its sessions did."""


def contend(order: DrillOptions) -> Report:
    """Claim, settle, sweep, cancel, redrive, edit, move and prune, all at once."""
    return _meddle(order, "")


def contend_unfenced(order: DrillOptions) -> Report:
    """The control: a meddler that settles by id alone settles jobs that others hold."""
    return _meddle(order, "unfenced")


def _meddle(order: DrillOptions, variant: str) -> Report:
    with KillablePostgres() as server:
        report = run_contention(server.url, order, variant=variant)
        time.sleep(STATISTICS_DELAY)
        with server.connect() as connection:
            [(deadlocks,)] = connection.execute(DEADLOCKS).fetchall()
    figures = {**report.figures, "deadlocks, none of them told": deadlocks}
    return msgspec.structs.replace(report, figures=figures)
