"""The server is killed and started again, under producers and workers at full work."""

from __future__ import annotations

from typing import Protocol

from tests.harness.faults.checks.allowed_loss import check_with_allowed_loss
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.recovery_time import add_recovery
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import DRAIN_TIMEOUT, WorkloadRun

KILL = "kill server"


class KillableServer(Protocol):
    """A server that can die and come back, with what it kept."""

    @property
    def url(self) -> str: ...

    def kill(self) -> None: ...

    def restart(self) -> None: ...


def kill_server(
    order: DrillOptions,
    server: KillableServer,
    title: str,
    *,
    note: str = "",
    patience: float = DRAIN_TIMEOUT,
) -> Report:
    """Kill it `order.count` times; the note says what that may cost."""
    with ServerScenario(server.url, order.folder, seed=order.seed, lease=order.lease) as scene:

        def blow() -> None:
            with scene.server_fault(KILL, note):
                server.kill()
                server.restart()

        WorkloadRun(scene, order).run(blow, patience=patience)
        evidence = scene.evidence()
    report = check_with_allowed_loss(
        evidence, seed=order.seed, title=f"{order.count} kills of {title}"
    )
    return add_recovery(report, evidence, KILL)
