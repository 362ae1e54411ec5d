"""Workers and producers are killed and stopped, as on any store."""

from __future__ import annotations

from ackline.testing.faults.campaign import Campaign, Plan
from ackline.testing.faults.redis.order import Order
from ackline.testing.faults.report import Report
from ackline.testing.servers.cluster import RedisCluster
from ackline.testing.servers.redis import RedisServer


def kill_workers(order: Order) -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    with RedisServer() as server:
        return _campaign(server.url, order)


def kill_workers_of_cluster(order: Order) -> Report:
    """The same on a cluster."""
    with RedisCluster() as cluster:
        return _campaign(cluster.url, order)


def _campaign(url: str, order: Order) -> Report:
    plan = Plan(
        store=url,
        faults=order.count,
        seed=order.seed,
        seconds=60.0 + 5 * order.count,
        lease=order.lease,
        producers=1,
        supervised=0,
    )
    return Campaign(plan, order.folder).run()
