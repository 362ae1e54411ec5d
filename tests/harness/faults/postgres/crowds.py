"""A crowd on one queue: the store itself handles deadlocks, which are counted."""

from __future__ import annotations

import time

import msgspec

from tests.harness.faults.postgres.mortal import MortalPostgres
from tests.harness.faults.report import Report
from tests.harness.faults.server.crowd import crowd
from tests.harness.faults.server.order import Order

DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

STATISTICS_DELAY = 1.5
"""Seconds after which the server has counted what its sessions did."""


def meddle(order: Order) -> Report:
    """Claim, settle, sweep, cancel, redrive, edit, move and prune, all at once."""
    return _meddle(order, "")


def meddle_unfenced(order: Order) -> Report:
    """The control: a meddler that settles by id alone settles jobs that others hold."""
    return _meddle(order, "unfenced")


def _meddle(order: Order, variant: str) -> Report:
    with MortalPostgres() as server:
        report = crowd(server.url, order, variant=variant)
        time.sleep(STATISTICS_DELAY)
        with server.connect() as connection:
            [(deadlocks,)] = connection.execute(DEADLOCKS).fetchall()
    figures = {**report.figures, "deadlocks, none of them told": deadlocks}
    return msgspec.structs.replace(report, figures=figures)
