"""Connections are cut: anywhere, around COMMIT's reply, and before COMMIT reaches the server."""

from __future__ import annotations

from functools import partial

from tests.harness.faults.cuts import Cut
from tests.harness.faults.postgres.mortal import MortalPostgres, url_of
from tests.harness.faults.report import Report
from tests.harness.faults.server.cutting import cut_connections, cut_producers_that_resend
from tests.harness.faults.server.order import Order

COMMITTED = b"COMMIT\0"
"""What the server sends when a transaction is committed."""

ANYWHERE = (Cut("before"), Cut("after"))

AROUND_REPLY = (Cut("after", answering=COMMITTED), Cut("delivered", answering=COMMITTED))

BEFORE_COMMIT = (Cut("before", matching=b"COMMIT"),)
"""Where statements are not prepared, the word itself goes over the wire."""


def cut(order: Order) -> Report:
    """Before or after any request, or COMMIT's reply: a repeated call gets the same answer."""
    return _cut(order, (*ANYWHERE, *AROUND_REPLY))


def cut_commit(order: Order) -> Report:
    """Before COMMIT arrives, before its reply does, and after: behind a pooler, without LISTEN."""
    return _cut(order, (*BEFORE_COMMIT, *AROUND_REPLY), "?pooler=transaction")


def cut_resent(order: Order) -> Report:
    """The control: a producer that sends again under a new id makes jobs nobody asked for."""
    with MortalPostgres() as server:
        return cut_producers_that_resend(order, server.address, url_of, (AROUND_REPLY[0],))


def _cut(order: Order, cuts: tuple[Cut, ...], options: str = "") -> Report:
    with MortalPostgres() as server:
        return cut_connections(order, server.address, partial(url_of, options=options), cuts)
