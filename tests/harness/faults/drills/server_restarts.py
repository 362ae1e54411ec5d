"""Kill and restart the server while producers and workers are busy."""

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
    """A server that can be killed and restarted with its data."""

    @property
    def url(self) -> str: ...

    def kill(self) -> None: ...

    def restart(self) -> None: ...


def kill_server(
    options: DrillOptions,
    server: KillableServer,
    title: str,
    *,
    note: str = "",
    timeout: float = DRAIN_TIMEOUT,
) -> Report:
    """Kill it `options.count` times; the note says what a kill may lose."""
    with ServerScenario(
        server.url, options.folder, seed=options.seed, lease=options.lease
    ) as scenario:

        def inject_fault() -> None:
            with scenario.server_fault(KILL, note):
                server.kill()
                server.restart()

        WorkloadRun(scenario, options).run(inject_fault, timeout=timeout)
        evidence = scenario.evidence()
    report = check_with_allowed_loss(
        evidence, seed=options.seed, title=f"{options.count} kills of {title}"
    )
    return add_recovery(report, evidence, KILL)
