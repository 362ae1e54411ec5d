"""There are no connections left: neither in the process, nor on the server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psycopg

from tests.harness.faults.checker import check
from tests.harness.faults.postgres.mortal import MortalPostgres, url_of
from tests.harness.faults.report import Report
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.scene import ServerScene
from tests.harness.faults.server.siege import Siege
from tests.harness.faults.variants import ANSWERED_EARLY

SLOTS = 30
"""Connections that the server has."""

CREW = "crew"
"""The user of all working processes; the harness itself is the superuser."""

HELD = 2 * ANSWERED_EARLY
"""Seconds for which no process can connect."""

END_ALL = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{CREW}'"


def exhaust(order: Order) -> Report:
    """Others take every connection of the server, those of the crew as well, for a while."""
    return _exhaust(order, "")


def exhaust_early(order: Order) -> Report:
    """The control: a producer that has answered already, and gets no connection, has lied."""
    return _exhaust(order, "answers before commit")


def _exhaust(order: Order, variant: str) -> Report:
    with MortalPostgres(max_connections=str(SLOTS)) as server:
        with server.connect() as connection:
            connection.execute(f"CREATE ROLE {CREW} LOGIN")
            connection.execute(f"GRANT CREATE ON DATABASE postgres TO {CREW}")
        # Each process has one connection for all its threads, beside the one that listens.
        url = url_of(server.address, "?connections=1", user=CREW)
        with ServerScene(url, order.folder, seed=order.seed, lease=order.lease) as scene:

            def blow() -> None:
                with scene.strike("no connection left"), _crowded(server):
                    time.sleep(HELD)

            Siege(scene, order).run(blow, variant=variant)
            title = f"{order.count} times no connection left"
            return check(scene.evidence(), seed=order.seed, title=title)


@contextlib.contextmanager
def _crowded(server: MortalPostgres) -> Iterator[None]:
    with contextlib.ExitStack() as crowd:
        first = crowd.enter_context(server.connect())
        # Only until its connections are taken: a process that is cut off would be back before that.
        first.execute(f"ALTER ROLE {CREW} CONNECTION LIMIT 0")
        first.execute(END_ALL)
        with contextlib.suppress(psycopg.OperationalError):
            for _ in range(SLOTS):
                crowd.enter_context(server.connect())
        first.execute(f"ALTER ROLE {CREW} CONNECTION LIMIT -1")
        yield
