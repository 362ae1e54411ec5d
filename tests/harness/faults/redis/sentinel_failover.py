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

KILL_PRIMARY, FAILOVER = "kill primary", "SENTINEL FAILOVER"

REPLICATION_DELAY = 0.1
"""Seconds that a change may take to reach the replica on a busy machine."""


def kill_primary(options: DrillOptions) -> Report:
    """The primary is killed, the sentinel promotes its replica, and all clients reconnect to it."""

    def inject_fault(servers: RedisSentinel, scenario: ServerScenario) -> None:
        with scenario.server_fault(KILL_PRIMARY, may_lose(REPLICATION_DELAY)):
            servers.kill_master()
        servers.replica.restart()
        wait_until_synced(servers.replica)

    return _run_with_sentinel(options, "", KILL_PRIMARY, inject_fault)


def fail_over(options: DrillOptions) -> Report:
    """SENTINEL FAILOVER: the old primary accepts writes for ten more seconds, which are lost.

    A store that waits for replicas does not report them as done: the old primary has none.
    """

    def inject_fault(servers: RedisSentinel, scenario: ServerScenario) -> None:
        with scenario.server_fault(FAILOVER):
            servers.promote()
            wait_until_synced(servers.replica)

    return _run_with_sentinel(options, "?replicas=1&timeout=2", FAILOVER, inject_fault)


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
    title = f"{options.count} times {act}, with a sentinel"
    report = check_with_allowed_loss(evidence, seed=options.seed, title=title)
    return add_recovery(report, evidence, act)
