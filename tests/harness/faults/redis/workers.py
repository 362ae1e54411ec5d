"""Workers and producers are killed and stopped, as on any store."""

from __future__ import annotations

from tests.harness.faults.report import Report
from tests.harness.faults.server import workers
from tests.harness.faults.server.order import Order
from tests.harness.servers.cluster import RedisCluster
from tests.harness.servers.redis import RedisServer


def kill_workers(order: Order) -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    with RedisServer() as server:
        return workers.kill_workers(server.url, order)


def kill_workers_of_cluster(order: Order) -> Report:
    """The same on a cluster."""
    with RedisCluster() as cluster:
        return workers.kill_workers(cluster.url, order)
