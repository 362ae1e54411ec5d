"""The server drops its clients, or keeps them waiting past their leases."""

from __future__ import annotations

import msgspec

from tests.harness.faults.checks.checker import check
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.servers.redis import RedisServer

KINDS = ("normal", "pubsub")
"""Connections that call, and connections that listen."""

SHORT_LEASE = 0.3
"""Seconds; a pause lasts two of them."""


def kill_clients(order: DrillOptions) -> Report:
    """CLIENT KILL of all callers or all listeners: each listener must hear again."""
    killed = dict.fromkeys(KINDS, 0)
    with (
        RedisServer() as server,
        ServerScenario(server.url, order.folder, seed=order.seed, lease=order.lease) as scene,
        server.client() as client,
    ):
        siege = WorkloadRun(scene, order)

        def blow() -> None:
            kind = siege.random.choice(KINDS)
            with scene.server_fault(f"CLIENT KILL TYPE {kind}"):
                killed[kind] += client.client_kill_filter(_type=kind, skipme=True)

        siege.run(blow)
        title = f"{order.count} times CLIENT KILL"
        report = check(scene.evidence(), seed=order.seed, title=title)
    counted = {f"{kind} connections killed": count for kind, count in killed.items()}
    return msgspec.structs.replace(report, figures={**report.figures, **counted})


def pause_clients(order: DrillOptions) -> Report:
    """CLIENT PAUSE for two leases: what lapsed meanwhile is done again, and only once."""
    with (
        RedisServer() as server,
        ServerScenario(server.url, order.folder, seed=order.seed, lease=SHORT_LEASE) as scene,
        server.client() as client,
    ):
        siege = WorkloadRun(scene, order)

        def blow() -> None:
            with scene.server_fault("CLIENT PAUSE for two leases"):
                writes_only = siege.random.random() < 0.5
                client.client_pause(int(2 * SHORT_LEASE * 1000), all=not writes_only)
                # Answered when the pause is over: a script might write.
                client.eval("return 1", 0)
                scene.live()

        siege.run(blow)
        title = f"{order.count} times CLIENT PAUSE"
        return check(scene.evidence(), seed=order.seed, title=title)
