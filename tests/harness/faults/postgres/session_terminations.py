"""Terminate sessions with `pg_terminate_backend`, each in the middle of a transaction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills import listener_kills
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.faults.postgres.pause_points import PAUSE_POINTS, PausePoints
from tests.harness.faults.postgres.server import KillablePostgres

LISTENERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = 'ackline' AND query LIKE 'DELETE FROM %.listener%'
"""
"""The last statement of a session that listens is a DELETE from the table `listener`."""


def terminate(options: DrillOptions) -> Report:
    """At each pause point, in turn."""
    return _terminate(options, list(PAUSE_POINTS))


def terminate_claim(options: DrillOptions) -> Report:
    """The jobs are no longer ready, and their leases are not committed yet."""
    return _terminate(options, ["claim"])


def terminate_settle(options: DrillOptions) -> Report:
    """The completion of the job is not committed yet."""
    return _terminate(options, ["settle"])


def terminate_dead_letter(options: DrillOptions) -> Report:
    """The last attempt has failed, and the move to the DLQ is not committed yet."""
    return _terminate(options, ["dead-letter"])


def terminate_commit(options: DrillOptions) -> Report:
    """During COMMIT."""
    return _terminate(options, ["commit"])


def terminate_early_answer(options: DrillOptions) -> Report:
    """The control: a producer that acknowledges jobs before its commit loses them."""
    return _terminate(options, ["enqueue"], "answers before commit")


def terminate_listener(options: DrillOptions) -> Report:
    """A worker whose listening session is terminated reconnects, and is notified."""
    return _terminate_listener(options, "")


def terminate_listener_no_notifications(options: DrillOptions) -> Report:
    """The control: a worker that is not notified is slow."""
    return _terminate_listener(options, "no notifications")


def _terminate(options: DrillOptions, names: Sequence[str], variant: str = "") -> Report:
    with (
        KillablePostgres() as server,
        ServerScenario(
            server.url, options.folder, seed=options.seed, lease=options.lease
        ) as scenario,
    ):
        pause_points, next_names = PausePoints(server), itertools.cycle(names)
        pause_points.install()

        def terminate_next() -> None:
            name = next(next_names)
            with scenario.server_fault(f"terminate a session during {name}"):
                pause_points.terminate(name)

        WorkloadRun(scenario, options).run(terminate_next, variant=variant)
        title = f"{options.count} sessions terminated"
        return check(scenario.evidence(), seed=options.seed, title=title)


def _terminate_listener(options: DrillOptions, variant: str) -> Report:
    with KillablePostgres() as server, server.connect() as connection:
        return listener_kills.kill_listeners(
            options,
            server.url,
            "terminate listening sessions",
            lambda: connection.execute(LISTENERS).fetchall(),
            variant=variant,
        )
