"""Many processes change the same jobs; the store retries deadlocks, which are counted."""

from __future__ import annotations

import time

import msgspec

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.contention import run_contention
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.postgres.server import KillablePostgres

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

STATISTICS_DELAY = 1.5
"""Seconds after which the statistics of the server are up to date."""


def contend(options: DrillOptions) -> Report:
    """Claim, settle, expire, cancel, redrive, edit, move and prune concurrently."""
    return _contend(options, "")


def contend_unfenced(options: DrillOptions) -> Report:
    """The control: a process that settles by id alone settles jobs leased by others."""
    return _contend(options, "unfenced")


def _contend(options: DrillOptions, variant: str) -> Report:
    with KillablePostgres() as server:
        report = run_contention(server.url, options, variant=variant)
        time.sleep(STATISTICS_DELAY)
        with server.connect() as connection:
            [(deadlocks,)] = connection.execute(DEADLOCKS).fetchall()
    figures = {**report.figures, "deadlocks, all of them retried": deadlocks}
    return msgspec.structs.replace(report, figures=figures)
