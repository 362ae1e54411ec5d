"""The primary dies, and its replica takes over with what it has received."""

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

ALONE = "no replica"

MAX_LAG = 0.1
"""The longest time, in seconds, for which a replica gets nothing before it is promoted."""

MARGIN = 0.02
"""Seconds that may pass between measuring a lag and recording it."""

REPLICA_OPTIONS = "?replicas=1&timeout=2"
"""URL options for a store that answers only once a replica has the change."""


def promote_lagging(options: DrillOptions) -> Report:
    """Promote a replica that is behind: what it has not received is lost, and measured."""
    return _promote(options, "")


def promote_awaited(options: DrillOptions) -> Report:
    """Promote a replica that has confirmed each change: nothing that was answered is lost."""
    return _promote(options, REPLICA_OPTIONS)


def _promote(options: DrillOptions, url_options: str) -> Report:
    with ReplicatedPair() as pair:
        url = url_of(pair.front.address) + url_options
        with ServerScenario(
            url, options.folder, seed=options.seed, lease=options.lease
        ) as scenario:
            workload = WorkloadRun(scenario, options)

            def inject_fault() -> None:
                since = pair.fall_behind(workload.random.uniform(0.0, MAX_LAG))
                lag = time.monotonic() - since + MARGIN
                with scenario.server_fault(PROMOTE, "" if url_options else may_lose(lag)):
                    pair.promote()
                with scenario.server_fault(ALONE):
                    pair.renew()

            workload.run(inject_fault)
            evidence = scenario.evidence()
    title = f"{options.count} promotions{' with ' if url_options else ''}{url_options}"
    report = check_with_allowed_loss(evidence, seed=options.seed, title=title)
    return add_recovery(report, evidence, PROMOTE)


class ReplicatedPair:
    """A master and its replica; clients connect to `front`, which leads to the current master.

    The replica gets its master's changes through a proxy as well, which can hold them back: on
    one machine it would hardly ever be behind.
    """

    def __init__(self) -> None:
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.master = stack.enter_context(RedisServer())
            self.replica = stack.enter_context(RedisServer())
            self.front = stack.enter_context(Proxy(self.master.address))
            self._link = stack.enter_context(Proxy(self.master.address))
            self._follow()
            self._started = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._started.close()

    def fall_behind(self, seconds: float) -> float:
        """Delay changes to the replica; returns since when it may lack some."""
        since = time.monotonic()
        wait_until_caught_up(self.replica, self.master)
        self._link.stall()
        time.sleep(seconds)
        return since

    def promote(self) -> None:
        """Kill the primary and promote the replica; delayed changes are lost."""
        self.master.kill()
        self._link.cut_all()
        self._link.resume()
        promote(self.replica)
        self.front.switch_to(self.replica.address)

    def renew(self) -> None:
        """Restart the old primary as the replica of the new one."""
        self.master, self.replica = self.replica, self.master
        self.replica.restart()
        self._follow()

    def _follow(self) -> None:
        self._link.switch_to(self.master.address)
        follow(self.replica, self.master, through=self._link.address)
        wait_until_synced(self.replica)
