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


def fail_over(options: DrillOptions) -> Report:
    """The primary dies, the sentinel promotes its replica, and all clients follow."""

    def inject_fault(servers: RedisSentinel, scenario: ServerScenario) -> None:
        with scenario.server_fault(FAIL_OVER, may_lose(REPLICATION_DELAY)):
            servers.kill_master()
        servers.replica.restart()
        wait_until_synced(servers.replica)

    return _run_with_sentinel(options, "", FAIL_OVER, inject_fault)


def sentinel_failover(options: DrillOptions) -> Report:
    """SENTINEL FAILOVER: the old primary continues for ten seconds, and must not be trusted.

    A store that waits for replicas does not trust it, because it has no replica any more.
    """

    def inject_fault(servers: RedisSentinel, scenario: ServerScenario) -> None:
        with scenario.server_fault(HAND_OVER):
            servers.promote()
            wait_until_synced(servers.replica)

    return _run_with_sentinel(options, "?replicas=1&timeout=2", HAND_OVER, inject_fault)


def _run_with_sentinel(
    options: DrillOptions,
    url_options: str,
    act: str,
    inject_fault: Callable[[RedisSentinel, ServerScenario], None],
) -> Report:
    with RedisSentinel() as servers:
        url = servers.url + url_options
        with ServerScenario(
            url, options.folder, seed=options.seed, lease=options.lease
        ) as scenario:
            WorkloadRun(scenario, options).run(lambda: inject_fault(servers, scenario))
            evidence = scenario.evidence()
    title = f"{options.count} times {act} by a sentinel"
    report = check_with_allowed_loss(evidence, seed=options.seed, title=title)
    return add_recovery(report, evidence, act)
