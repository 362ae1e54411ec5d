"""A sentinel swaps the roles of primary and replica while all processes are working."""

from __future__ import annotations

from collections.abc import Callable

from tests.harness.faults.checks.allowed_loss import check_with_allowed_loss, may_lose
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.recovery_time import add_recovery
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.servers.redis_replication import wait_until_synced
from tests.harness.servers.redis_sentinel import RedisSentinel

FAIL_OVER, HAND_OVER = "fail over", "hand over"

REPLICATION_DELAY = 0.1
"""Seconds that a change may take to reach the replica on a busy machine."""


def fail_over(order: DrillOptions) -> Report:
    """The primary dies, the sentinel promotes its replica, and all clients follow."""

    def inject_fault(servers: RedisSentinel, scene: ServerScenario) -> None:
        with scene.server_fault(FAIL_OVER, may_lose(REPLICATION_DELAY)):
            servers.kill_master()
        servers.replica.restart()
        wait_until_synced(servers.replica)

    return _run_with_sentinel(order, "", FAIL_OVER, inject_fault)


def sentinel_failover(order: DrillOptions) -> Report:
    """SENTINEL FAILOVER: the old primary continues for ten seconds, and must not be trusted.

    A store that waits for replicas does not trust it, because it has no replica any more.
    """

    def inject_fault(servers: RedisSentinel, scene: ServerScenario) -> None:
        with scene.server_fault(HAND_OVER):
            servers.promote()
            wait_until_synced(servers.replica)

    return _run_with_sentinel(order, "?replicas=1&timeout=2", HAND_OVER, inject_fault)


def _run_with_sentinel(
    order: DrillOptions,
    options: str,
    act: str,
    inject_fault: Callable[[RedisSentinel, ServerScenario], None],
) -> Report:
    with RedisSentinel() as servers:
        url = servers.url + options
        with ServerScenario(url, order.folder, seed=order.seed, lease=order.lease) as scene:
            WorkloadRun(scene, order).run(lambda: inject_fault(servers, scene))
            evidence = scene.evidence()
    title = f"{order.count} times {act} by a sentinel"
    report = check_with_allowed_loss(evidence, seed=order.seed, title=title)
    return add_recovery(report, evidence, act)
