"""The server disconnects its clients, or pauses them past their leases."""

from __future__ import annotations

import msgspec

from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.servers.redis import RedisServer

KINDS = ("normal", "pubsub")
"""Connections of callers and connections of listeners."""

SHORT_LEASE = 0.3
"""Seconds; a pause lasts two leases."""


def kill_clients(options: DrillOptions) -> Report:
    """CLIENT KILL of all callers or all listeners: each listener must reconnect."""
    killed = dict.fromkeys(KINDS, 0)
    with (
        RedisServer() as server,
        ServerScenario(
            server.url, options.folder, seed=options.seed, lease=options.lease
        ) as scenario,
        server.client() as client,
    ):
        workload = WorkloadRun(scenario, options)

        def inject_fault() -> None:
            kind = workload.random.choice(KINDS)
            with scenario.server_fault(f"CLIENT KILL TYPE {kind}"):
                killed[kind] += client.client_kill_filter(_type=kind, skipme=True)

        workload.run(inject_fault)
        title = f"{options.count} times CLIENT KILL"
        report = check(scenario.evidence(), seed=options.seed, title=title)
    counted = {f"{kind} connections killed": count for kind, count in killed.items()}
    return msgspec.structs.replace(report, figures={**report.figures, **counted})


def pause_clients(options: DrillOptions) -> Report:
    """CLIENT PAUSE for two leases: expired jobs are redelivered, and completed once."""
    with (
        RedisServer() as server,
        ServerScenario(
            server.url, options.folder, seed=options.seed, lease=SHORT_LEASE
        ) as scenario,
        server.client() as client,
    ):
        workload = WorkloadRun(scenario, options)

        def inject_fault() -> None:
            with scenario.server_fault("CLIENT PAUSE for two leases"):
                writes_only = workload.random.random() < 0.5
                client.client_pause(int(2 * SHORT_LEASE * 1000), all=not writes_only)
                # Answered when the pause is over: a script might write.
                client.eval("return 1", 0)
                scenario.live()

        workload.run(inject_fault)
        title = f"{options.count} times CLIENT PAUSE"
        return check(scenario.evidence(), seed=options.seed, title=title)
