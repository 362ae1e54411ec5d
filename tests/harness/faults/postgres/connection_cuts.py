"""Connections are cut: anywhere, around COMMIT's reply, and before COMMIT reaches the server."""

from __future__ import annotations

from functools import partial

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.connection_cuts import cut_connections, cut_producers_that_resend
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
"""Where statements are not prepared, the word itself goes over the wire."""


def cut(order: DrillOptions) -> Report:
    """Before or after any request, or COMMIT's reply: a repeated call gets the same answer."""
    return _cut(order, (*ANYWHERE, *AROUND_REPLY))


def cut_commit(order: DrillOptions) -> Report:
    """Before COMMIT arrives, before its reply does, and after: behind a pooler, without LISTEN."""
    return _cut(order, (*BEFORE_COMMIT, *AROUND_REPLY), "?pooler=transaction")


def cut_resent(order: DrillOptions) -> Report:
    """The control: a producer that sends again under a new id makes jobs nobody asked for."""
    with KillablePostgres() as server:
        return cut_producers_that_resend(order, server.address, url_of, (AROUND_REPLY[0],))


def _cut(order: DrillOptions, cuts: tuple[ConnectionCut, ...], options: str = "") -> Report:
    with KillablePostgres() as server:
        return cut_connections(order, server.address, partial(url_of, options=options), cuts)
