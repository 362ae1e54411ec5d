"""The primary is killed, and its replica is promoted with what it has received."""

from __future__ import annotations

import contextlib
import time
from typing import Self

from tests.harness.faults.checks.allowed_loss import check_with_allowed_loss, may_lose
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.recovery_time import add_recovery
from tests.harness.faults.drills.server_scenario import ServerScenario
from tests.harness.faults.drills.workload_run import WorkloadRun
from tests.harness.faults.proxy import Proxy
from tests.harness.faults.redis.connection_cuts import url_of
from tests.harness.servers.redis import RedisServer
from tests.harness.servers.redis_replication import (
    follow,
    promote,
    wait_until_caught_up,
    wait_until_synced,
)

PROMOTE = "promote replica"

NO_REPLICA = "no replica"

MAX_LAG = 0.1
"""The longest time, in seconds, for which a replica receives nothing before it is promoted."""

MARGIN = 0.02
"""Seconds that may pass between measuring a lag and recording it."""

REPLICA_OPTIONS = "?replicas=1&timeout=2"
"""URL options for a store that answers only once a replica has the change."""


def promote_lagging(options: DrillOptions) -> Report:
    """Promote a replica that is behind: what it has not received is lost, and measured."""
    return _promote(options, "")


def promote_confirmed(options: DrillOptions) -> Report:
    """Promote a replica that has confirmed each change: nothing that was answered is lost."""
    return _promote(options, REPLICA_OPTIONS)


def _promote(options: DrillOptions, url_options: str) -> Report:
    with ReplicatedPair() as pair:
        url = url_of(pair.proxy.address) + url_options
        with ServerScenario(
            url, options.folder, seed=options.seed, lease=options.lease
        ) as scenario:
            workload = WorkloadRun(scenario, options)

            def inject_fault() -> None:
                since = pair.fall_behind(workload.random.uniform(0.0, MAX_LAG))
                lag = time.monotonic() - since + MARGIN
                with scenario.server_fault(PROMOTE, "" if url_options else may_lose(lag)):
                    pair.promote()
                with scenario.server_fault(NO_REPLICA):
                    pair.restart_as_replica()

            workload.run(inject_fault)
            evidence = scenario.evidence()
    title = f"{options.count} promotions{' with ' if url_options else ''}{url_options}"
    report = check_with_allowed_loss(evidence, seed=options.seed, title=title)
    return add_recovery(report, evidence, PROMOTE)


class ReplicatedPair:
    """A primary and its replica; clients connect to `proxy`, which forwards to the current primary.

    The replica gets the primary's changes through a proxy as well, which can delay them: on one
    machine it would hardly ever lag.
    """

    def __init__(self) -> None:
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.master = stack.enter_context(RedisServer())
            self.replica = stack.enter_context(RedisServer())
            self.proxy = stack.enter_context(Proxy(self.master.address))
            self._replication_proxy = stack.enter_context(Proxy(self.master.address))
            self._follow()
            self._started = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._started.close()

    def fall_behind(self, seconds: float) -> float:
        """Delay changes to the replica; returns the time from which on it may lack some."""
        since = time.monotonic()
        wait_until_caught_up(self.replica, self.master)
        self._replication_proxy.stall()
        time.sleep(seconds)
        return since

    def promote(self) -> None:
        """Kill the primary and promote the replica; delayed changes are lost."""
        self.master.kill()
        self._replication_proxy.cut_all()
        self._replication_proxy.resume()
        promote(self.replica)
        self.proxy.switch_to(self.replica.address)

    def restart_as_replica(self) -> None:
        """Restart the old primary as the replica of the new one."""
        self.master, self.replica = self.replica, self.master
        self.replica.restart()
        self._follow()

    def _follow(self) -> None:
        self._replication_proxy.switch_to(self.master.address)
        follow(self.replica, self.master, through=self._replication_proxy.address)
        wait_until_synced(self.replica)
