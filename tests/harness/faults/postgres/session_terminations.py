"""Terminate sessions with `pg_terminate_backend`, each in the middle of a transaction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills import wakeups
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


def terminate(order: DrillOptions) -> Report:
    """At each pause point, in turn."""
    return _terminate(order, list(PAUSE_POINTS))


def terminate_claim(order: DrillOptions) -> Report:
    """The jobs are no longer ready, and their leases are not committed yet."""
    return _terminate(order, ["claim"])


def terminate_settle(order: DrillOptions) -> Report:
    """The completion of the job is not committed yet."""
    return _terminate(order, ["settle"])


def terminate_dead_letter(order: DrillOptions) -> Report:
    """The last attempt has failed, and the move to the DLQ is not committed yet."""
    return _terminate(order, ["dead-letter"])


def terminate_commit(order: DrillOptions) -> Report:
    """During COMMIT."""
    return _terminate(order, ["commit"])


def terminate_early(order: DrillOptions) -> Report:
    """The control: a producer that acknowledges jobs before its commit loses them."""
    return _terminate(order, ["enqueue"], "answers before commit")


def terminate_listen(order: DrillOptions) -> Report:
    """A worker whose listening session is terminated listens again, and is woken."""
    return _terminate_listen(order, "")


def terminate_listen_unnotified(order: DrillOptions) -> Report:
    """The control: a worker that is not notified is slow."""
    return _terminate_listen(order, "no notifications")


def _terminate(order: DrillOptions, names: Sequence[str], variant: str = "") -> Report:
    with (
        KillablePostgres() as server,
        ServerScenario(server.url, order.folder, seed=order.seed, lease=order.lease) as scene,
    ):
        pause_points, next_names = PausePoints(server), itertools.cycle(names)
        pause_points.install()

        def terminate_next() -> None:
            name = next(next_names)
            with scene.server_fault(f"terminate a session during {name}"):
                pause_points.terminate(name)

        WorkloadRun(scene, order).run(terminate_next, variant=variant)
        title = f"{order.count} sessions terminated"
        return check(scene.evidence(), seed=order.seed, title=title)


def _terminate_listen(order: DrillOptions, variant: str) -> Report:
    with KillablePostgres() as server, server.connect() as connection:
        return wakeups.wake_up(
            order,
            server.url,
            "terminate listening sessions",
            lambda: connection.execute(LISTENERS).fetchall(),
            variant=variant,
        )
