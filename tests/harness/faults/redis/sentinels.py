"""A sentinel changes the roles of master and replica while all processes work."""

from __future__ import annotations

from collections.abc import Callable

from tests.harness.faults.loss import check_but_loss, may_lose
from tests.harness.faults.report import Report
from tests.harness.faults.server.flow import add_recovery
from tests.harness.faults.server.order import Order
from tests.harness.faults.server.scene import ServerScene
from tests.harness.faults.server.siege import Siege
from tests.harness.servers.replication import wait_until_synced
from tests.harness.servers.sentinel import RedisSentinel

FAIL_OVER, HAND_OVER = "fail over", "hand over"

ON_THE_WAY = 0.1
"""Seconds that a change may take to the replica, on a busy machine."""


def fail_over(order: Order) -> Report:
    """The master dies, the sentinel promotes its replica, and everybody follows."""

    def blow(servers: RedisSentinel, scene: ServerScene) -> None:
        with scene.strike(FAIL_OVER, may_lose(ON_THE_WAY)):
            servers.kill_master()
        servers.replica.restart()
        wait_until_synced(servers.replica)

    return _besiege(order, "", FAIL_OVER, blow)


def hand_over(order: Order) -> Report:
    """SENTINEL FAILOVER: the old master goes on for ten seconds, and must not be believed.

    A store that waits for replicas does not believe it: that master has no replica any more.
    """

    def blow(servers: RedisSentinel, scene: ServerScene) -> None:
        with scene.strike(HAND_OVER):
            servers.promote()
            wait_until_synced(servers.replica)

    return _besiege(order, "?replicas=1&timeout=2", HAND_OVER, blow)


def _besiege(
    order: Order, options: str, act: str, blow: Callable[[RedisSentinel, ServerScene], None]
) -> Report:
    with RedisSentinel() as servers:
        url = servers.url + options
        with ServerScene(url, order.folder, seed=order.seed, lease=order.lease) as scene:
            Siege(scene, order).run(lambda: blow(servers, scene))
            evidence = scene.evidence()
    title = f"{order.count} times {act} by a sentinel"
    report = check_but_loss(evidence, seed=order.seed, title=title)
    return add_recovery(report, evidence, act)
