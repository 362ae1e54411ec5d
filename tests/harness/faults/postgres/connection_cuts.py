"""Cut connections: anywhere, around the reply to COMMIT, and before COMMIT reaches the server."""

from __future__ import annotations

from functools import partial

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.connection_cuts import cut_connections, cut_producers_with_new_ids
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.postgres.server import KillablePostgres, url_of
from tests.harness.faults.proxy import ConnectionCut

COMMITTED = b"COMMIT\0"
"""What the server sends when a transaction is committed."""

ANYWHERE = (ConnectionCut("before"), ConnectionCut("after"))

AROUND_REPLY = (
    ConnectionCut("after", answering=COMMITTED),
    ConnectionCut("delivered", answering=COMMITTED),
)

BEFORE_COMMIT = (ConnectionCut("before", matching=b"COMMIT"),)
"""Statements that are not prepared are sent as text."""


def cut(options: DrillOptions) -> Report:
    """Before or after any request or the reply to COMMIT; a repeated call gets the same result."""
    return _cut(options, (*ANYWHERE, *AROUND_REPLY))


def cut_commit(options: DrillOptions) -> Report:
    """Before COMMIT arrives, and before or after its reply; behind a pooler, without LISTEN."""
    return _cut(options, (*BEFORE_COMMIT, *AROUND_REPLY), "?pooler=transaction")


def cut_new_ids(options: DrillOptions) -> Report:
    """The control: a producer that repeats a job under a new id creates duplicates."""
    with KillablePostgres() as server:
        return cut_producers_with_new_ids(options, server.address, url_of, (AROUND_REPLY[0],))


def _cut(options: DrillOptions, cuts: tuple[ConnectionCut, ...], url_options: str = "") -> Report:
    with KillablePostgres() as server:
        return cut_connections(
            options, server.address, partial(url_of, url_options=url_options), cuts
        )
