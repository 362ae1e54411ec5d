"""No connections are left, neither in the process nor on the server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psycopg

from tests.harness.faults.broken_stores import EARLY_ANSWER_SECONDS
from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.faults.postgres.server import KillablePostgres, url_of

MAX_CONNECTIONS = 30
"""The connections that the server allows."""

CLIENT_USER = "app"
"""The user of producers and workers; the harness is the superuser."""

OUTAGE_SECONDS = 2 * EARLY_ANSWER_SECONDS
"""Seconds for which no process can connect."""

TERMINATE_ALL = (
    f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{CLIENT_USER}'"
)


def exhaust(options: DrillOptions) -> Report:
    """For a while, other clients have all connections of the server."""
    return _exhaust(options, "")


def exhaust_early_answer(options: DrillOptions) -> Report:
    """The control: a producer that acknowledges jobs before its commit loses them."""
    return _exhaust(options, "answers before commit")


def _exhaust(options: DrillOptions, variant: str) -> Report:
    with KillablePostgres(max_connections=str(MAX_CONNECTIONS)) as server:
        with server.connect() as connection:
            connection.execute(f"CREATE ROLE {CLIENT_USER} LOGIN")
            connection.execute(f"GRANT CREATE ON DATABASE postgres TO {CLIENT_USER}")
        # Each process has one connection for all its threads, and one that listens.
        url = url_of(server.address, "?connections=1", user=CLIENT_USER)
        with ServerScenario(
            url, options.folder, seed=options.seed, lease=options.lease
        ) as scenario:

            def exhaust_connections() -> None:
                with scenario.server_fault("no connections left"), _without_connections(server):
                    time.sleep(OUTAGE_SECONDS)

            WorkloadRun(scenario, options).run(exhaust_connections, variant=variant)
            title = f"{options.count} times no connections left"
            return check(scenario.evidence(), seed=options.seed, title=title)


@contextlib.contextmanager
def _without_connections(server: KillablePostgres) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(server.connect())
        # Refuse reconnects until all connections are taken.
        first.execute(f"ALTER ROLE {CLIENT_USER} CONNECTION LIMIT 0")
        first.execute(TERMINATE_ALL)
        with contextlib.suppress(psycopg.OperationalError):
            for _ in range(MAX_CONNECTIONS):
                stack.enter_context(server.connect())
        first.execute(f"ALTER ROLE {CLIENT_USER} CONNECTION LIMIT -1")
        yield
