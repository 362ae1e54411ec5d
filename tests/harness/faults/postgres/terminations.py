"""Sessions are ended by `pg_terminate_backend`, each in the middle of what it does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.harness.faults.checker import check
from tests.harness.faults.postgres.moments import MOMENTS, Moments
from tests.harness.faults.postgres.mortal import MortalPostgres
from tests.harness.faults.report import Report
from tests.harness.faults.server import wakeups
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.scene import ServerScene
from tests.harness.faults.server.siege import Siege

LISTENERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = 'ackline' AND query LIKE 'DELETE FROM %.waiting%'
"""
"""Only a session that listens deletes from the table `waiting`, and does nothing after that."""


def terminate(order: Order) -> Report:
    """In the middle of each moment, in turn."""
    return _terminate(order, list(MOMENTS))


def terminate_claim(order: Order) -> Report:
    """The jobs are taken out of their lines, and their leases are not committed yet."""
    return _terminate(order, ["claim"])


def terminate_settle(order: Order) -> Report:
    """The job is completed, and that is not committed yet."""
    return _terminate(order, ["settle"])


def terminate_dead_letter(order: Order) -> Report:
    """The last attempt has failed, and the job is on its way to the DLQ."""
    return _terminate(order, ["dead-letter"])


def terminate_commit(order: Order) -> Report:
    """In COMMIT itself."""
    return _terminate(order, ["commit"])


def terminate_early(order: Order) -> Report:
    """The control: a producer that answers before its commit loses what is not committed."""
    return _terminate(order, ["enqueue"], "answers before commit")


def terminate_listen(order: Order) -> Report:
    """A session that listens is ended: its worker listens again, and hears of the next job."""
    return _terminate_listen(order, "")


def terminate_listen_deaf(order: Order) -> Report:
    """The control: a worker that hears nothing is slow."""
    return _terminate_listen(order, "no news")


def _terminate(order: Order, names: Sequence[str], variant: str = "") -> Report:
    with (
        MortalPostgres() as server,
        ServerScene(server.url, order.folder, seed=order.seed, lease=order.lease) as scene,
    ):
        moments, turn = Moments(server), itertools.cycle(names)
        moments.install()

        def blow() -> None:
            name = next(turn)
            with scene.strike(f"terminate a session during {name}"):
                moments.terminate(name)

        Siege(scene, order).run(blow, variant=variant)
        title = f"{order.count} sessions terminated"
        return check(scene.evidence(), seed=order.seed, title=title)


def _terminate_listen(order: Order, variant: str) -> Report:
    with MortalPostgres() as server, server.connect() as connection:
        return wakeups.wake_up(
            order,
            server.url,
            "terminate who listens",
            lambda: connection.execute(LISTENERS).fetchall(),
            variant=variant,
        )
