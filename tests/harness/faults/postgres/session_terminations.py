"""Sessions are ended by `pg_terminate_backend`, each in the middle of what it does."""

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
"""Only a session that listens deletes from the table `listener`, and does nothing after that."""


def terminate(order: DrillOptions) -> Report:
    """In the middle of each moment, in turn."""
    return _terminate(order, list(PAUSE_POINTS))


def terminate_claim(order: DrillOptions) -> Report:
    """The jobs are taken out of their lines, and their leases are not committed yet."""
    return _terminate(order, ["claim"])


def terminate_settle(order: DrillOptions) -> Report:
    """The job is completed, and that is not committed yet."""
    return _terminate(order, ["settle"])


def terminate_dead_letter(order: DrillOptions) -> Report:
    """The last attempt has failed, and the job is on its way to the DLQ."""
    return _terminate(order, ["dead-letter"])


def terminate_commit(order: DrillOptions) -> Report:
    """In COMMIT itself."""
    return _terminate(order, ["commit"])


def terminate_early(order: DrillOptions) -> Report:
    """The control: a producer that answers before its commit loses what is not committed."""
    return _terminate(order, ["enqueue"], "answers before commit")


def terminate_listen(order: DrillOptions) -> Report:
    """A session that listens is ended: its worker listens again, and hears of the next job."""
    return _terminate_listen(order, "")


def terminate_listen_unnotified(order: DrillOptions) -> Report:
    """The control: a worker that hears nothing is slow."""
    return _terminate_listen(order, "no notifications")


def _terminate(order: DrillOptions, names: Sequence[str], variant: str = "") -> Report:
    with (
        KillablePostgres() as server,
        ServerScenario(server.url, order.folder, seed=order.seed, lease=order.lease) as scene,
    ):
        moments, turn = PausePoints(server), itertools.cycle(names)
        moments.install()

        def blow() -> None:
            name = next(turn)
            with scene.server_fault(f"terminate a session during {name}"):
                moments.terminate(name)

        WorkloadRun(scene, order).run(blow, variant=variant)
        title = f"{order.count} sessions terminated"
        return check(scene.evidence(), seed=order.seed, title=title)


def _terminate_listen(order: DrillOptions, variant: str) -> Report:
    with KillablePostgres() as server, server.connect() as connection:
        return wakeups.wake_up(
            order,
            server.url,
            "terminate who listens",
            lambda: connection.execute(LISTENERS).fetchall(),
            variant=variant,
        )
